"""huey: a consumer of threads; nothing stored, as the handler has no result."""

from huey import RedisHuey
from timing import JOBS, MODE, PAYLOAD, URL, handled

huey = RedisHuey("peer", url=URL, results=False)


@huey.task()
def noop(payload):
    handled()


for _ in range(JOBS):
    noop(PAYLOAD)
huey.create_consumer(workers=int(MODE.split()[-2]), periodic=False).run()
