"""A stack without its objects: it reads its file and exports what the program exports, so that no cluster is needed."""

import sys
from pathlib import Path

import pulumi

sys.path.insert(0, str(Path(__file__).parents[3]))

from stacks import outputs
from stacks.keys import Keys
from stacks.load import load, owner
from stacks.resolve import Stack

me = owner(pulumi.get_stack())
stack = Stack(load(me), me)
outputs.export(stack, Keys(stack))
