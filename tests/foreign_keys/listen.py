"""A module of this folder in a process of its own, with the packages of another release.

python -S listen.py MODULE PORT    for each line ``[function, before, after]`` that it reads, it
                                   calls the function with these arguments and a client between
                                   them, and answers what that returns

It runs without the tests' packages: the module finds its neighbours, and nothing else of ours.
"""

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import redis

_, name, port = sys.argv
here = str(Path(__file__).parent)
sys.path[:] = [folder for folder in sys.path if folder != here]  # PYTHONSAFEPATH leaves it out
for package, folder in (("tests", ".."), ("tests.foreign_keys", ".")):  # without its __init__
    made = sys.modules[package] = ModuleType(package)
    made.__path__ = [str(Path(__file__).parent / folder)]
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # what a worker prints is no answer
module = import_module(f"tests.foreign_keys.{name}")
client = redis.Redis(port=int(port))
for line in sys.stdin:
    function, before, after = json.loads(line)
    try:
        found = getattr(module, function)(*before, client, *after)
        print(json.dumps(found), file=answers)
    except Exception as error:
        print(f"{type(error).__name__}: {error}".replace("\n", " "), file=answers)
