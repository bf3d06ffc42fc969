"""How deployments of Sidekiq are recognised: with Resque's, as both name their keys alike."""

from ..ruby_jobs.recogniser import JobRecogniser

__all__ = ["JobRecogniser"]
