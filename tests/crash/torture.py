"""The common part of the tortures that are scripts: one test with a seed, and what it says if it fails."""
import argparse
import os
import random
import sys
import unittest


def parser(word, description):
    made = argparse.ArgumentParser(prog=f"./dev torture {word}", description=description)
    made.add_argument("--kills", type=int, default=200, metavar="N", help="default: 200")
    made.add_argument("--seed", type=int, metavar="N", help="that of a run that failed; default: another one each time")
    return made


def options_of(made):
    options = made.parse_args()
    if options.seed is None:
        options.seed = random.randrange(1 << 32)
    return options


def run(case, options):
    outcome = unittest.TextTestRunner(stream=open(os.devnull, "w"), verbosity=0).run(case)
    for _, text in outcome.failures + outcome.errors:
        print(text, file=sys.stderr)
    if not outcome.wasSuccessful():
        raise SystemExit(f"failed with seed {options.seed}")
