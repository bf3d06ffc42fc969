# Sidekiq: retry_all on failed jobs. Arguments and answer as in timing.py.
require "json"
require "sidekiq"
require "sidekiq/api"

_, _, url, count = ARGV
jobs = count.to_i
Sidekiq.configure_client { |config| config.redis = { url: url } }

def server_seconds
  used = Sidekiq.redis { |client| client.info }
  used["used_cpu_user"].to_f + used["used_cpu_sys"].to_f
end

failed = Sidekiq::DeadSet.new
Sidekiq.redis do |client|
  (0...jobs).each_slice(1000) do |numbers|
    client.zadd("dead", numbers.map { |n|
      job = {
        class: "HardJob", args: ["x" * 60, n], jid: format("%024d", n), queue: "peer", retry: true,
        created_at: 1.7e9, enqueued_at: 1.7e9, error_message: "no luck", error_class: "ValueError",
        failed_at: 1.7e9, retry_count: 3
      }
      [1.7e9 + n / 100.0, JSON.generate(job)]
    })
  end
end
used, began = server_seconds, Process.clock_gettime(Process::CLOCK_MONOTONIC)
failed.retry_all
seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
used = server_seconds - used
back = Sidekiq::Queue.new("peer").size
abort "#{back} of #{jobs} are back" unless back == jobs
puts JSON.generate(jobs: jobs, seconds: seconds, server_seconds: used)
