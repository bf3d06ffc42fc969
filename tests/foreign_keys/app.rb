# What a Sidekiq process of the tests runs: each job writes a line, so that one can see who ran what.
require "sidekiq"

LOG = ENV.fetch("REDISQ_TEST_LOG")

def tell(line)
  File.open(LOG, "a") { |file| file.puts(line) }
end

class Note
  include Sidekiq::Worker

  def perform(word)
    tell("ran #{word}")
  end
end

class Slow
  include Sidekiq::Worker

  def perform(word)
    tell("began #{word}")
    sleep 60
  end
end

class Fragile
  include Sidekiq::Worker
  sidekiq_options retry: 3, backtrace: 5

  def perform(word)
    tell("tried #{word}")
    raise ArgumentError, "no luck with #{word}"
  end
end

class Hopeless
  include Sidekiq::Worker
  sidekiq_options retry: 0

  def perform(word)
    tell("tried #{word}")
    raise "not even once: #{word}"
  end
end

# `ruby app.rb push`: what a real client puts in.
if ARGV == ["push"]
  Note.perform_async("first")
  Note.perform_async("gr\u00fc\u00df \u{1F600} </script>")
  Note.set(queue: "low").perform_async(12345678901234567890)
  Note.perform_in(3600, "later")
  Fragile.perform_async("glass")
end
