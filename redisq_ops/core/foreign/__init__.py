"""Queues that other programs keep, a folder for each program (see docs/new-kind.md)."""

LAYOUTS: dict[str, tuple[str, str]] = {
    "rq": ("foreign.rq", "RqQueue"),
    "arq": ("foreign.arq", "ArqQueue"),
    "asynq": ("foreign.asynq", "AsynqQueue"),
    "bullmq": ("foreign.bullmq", "BullmqQueue"),
    "bull": ("foreign.bull", "BullQueue"),
    "celery": ("foreign.celery", "CeleryQueue"),
    "dramatiq": ("foreign.dramatiq", "DramatiqQueue"),
    "sidekiq": ("foreign.sidekiq", "SidekiqQueue"),
    "resque": ("foreign.resque", "ResqueQueue"),
    "laravel": ("foreign.laravel", "LaravelQueue"),
    "stream": ("foreign.streams", "StreamQueue"),
    "raw-request": ("foreign.articles", "RawRequestQueue"),
    "raw-circular": ("foreign.articles", "RawCircularQueue"),
    "raw-delay": ("foreign.articles", "RawDelaySet"),
    "raw-fair": ("foreign.articles", "RawFairQueue"),
    "carmine": ("queues.carmine", "CarmineLayout"),
}
"""the registration of each kind: its package in `redisq_ops.core`, and the class that reads it"""
