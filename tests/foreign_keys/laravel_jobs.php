<?php
// Laravel's queue on a server, by its own packages. Each line is a list of calls, [method, argument, ...];
// the answer is "ok", or why not. Arguments: the server's port, what its keys begin with, the queue.

namespace App\Jobs {

    class Fine
    {
        public $tries = 1;

        public function __construct(public string $what)
        {
        }

        public function handle()
        {
        }
    }

    class Charge extends Fine
    {
        public function handle()
        {
            throw new \RuntimeException("no card for order {$this->what}");
        }
    }

    class Export extends Charge
    {
        public $tries = 3;

        public $backoff = 600;
    }
}

namespace {

    use Illuminate\Bus\BusServiceProvider;
    use Illuminate\Container\Container;
    use Illuminate\Contracts\Debug\ExceptionHandler;
    use Illuminate\Contracts\Events\Dispatcher as Events;
    use Illuminate\Events\Dispatcher;
    use Illuminate\Queue\Capsule\Manager;
    use Illuminate\Queue\Queue;
    use Illuminate\Queue\Worker;
    use Illuminate\Queue\WorkerOptions;
    use Illuminate\Redis\RedisManager;
    use Illuminate\Support\Carbon;

    foreach (['Queue', 'Redis', 'Events', 'Bus'] as $part) {
        require_once "Illuminate/$part/autoload.php";
    }

    class Silent implements ExceptionHandler
    {
        public function report(\Throwable $e)
        {
        }

        public function shouldReport(\Throwable $e)
        {
            return false;
        }

        public function render($request, \Throwable $e)
        {
        }

        public function renderForConsole($output, \Throwable $e)
        {
        }
    }

    class Calls
    {
        private $job;

        public function __construct(private $queue, private $worker, private string $name)
        {
        }

        private function made(string $class, string $uuid, string $what)
        {
            Queue::createPayloadUsing(null);
            Queue::createPayloadUsing(fn () => ['uuid' => $uuid]);
            $class = "App\\Jobs\\$class";
            return new $class($what);
        }

        public function push(...$job)
        {
            $this->queue->push($this->made(...$job));
        }

        public function later(int $seconds, ...$job)
        {
            $this->queue->later($seconds, $this->made(...$job));
        }

        // What a worker takes, ages ago if told so.
        public function pop(int $ago = 0)
        {
            Carbon::setTestNow(Carbon::now()->subSeconds($ago));
            $this->job = $this->queue->pop();
            Carbon::setTestNow();
        }

        public function release(int $seconds)
        {
            $this->job->release($seconds);
        }

        public function delete()
        {
            $this->job->delete();
        }

        // A worker runs the next job.
        public function work()
        {
            $this->worker->runNextJob('default', $this->name, new WorkerOptions());
        }

        // What a worker does first with the jobs that are due by then.
        public function migrate(string $part, int $until)
        {
            Carbon::setTestNow(Carbon::createFromTimestamp($until));
            $this->queue->migrateExpiredJobs("queues:{$this->name}:$part", "queues:{$this->name}");
            Carbon::setTestNow();
        }
    }

    [, $port, $prefix, $name] = $argv;
    $app = new Container();
    $server = ['host' => '127.0.0.1', 'port' => $port, 'database' => 0];
    $app->instance('redis', new RedisManager($app, 'phpredis', [
        'default' => $server, 'options' => ['prefix' => $prefix],
    ]));
    $app->instance(Events::class, $events = new Dispatcher($app));
    $app->alias(Events::class, 'events');
    (new BusServiceProvider($app))->register();
    $capsule = new Manager($app);
    $capsule->addConnection(
        ['driver' => 'redis', 'connection' => 'default', 'queue' => $name, 'retry_after' => 60]
    );
    $worker = new Worker($capsule->getQueueManager(), $events, new Silent(), fn () => false);
    $calls = new Calls($capsule->getConnection(), $worker, $name);
    while ($line = fgets(STDIN)) {
        try {
            foreach (json_decode($line) as [$method, $arguments]) {
                $calls->$method(...$arguments);
            }
            echo "ok\n";
        } catch (\Throwable $e) {
            echo str_replace("\n", ' ', "$e"), "\n";
        }
    }
}
