"""How deployments of Resque are recognised: with Sidekiq's, as both name their keys alike."""

from ..ruby_jobs.recogniser import JobRecogniser

__all__ = ["JobRecogniser"]
