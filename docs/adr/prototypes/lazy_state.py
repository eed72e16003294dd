#!/usr/bin/env python3
"""Prototype of record 0062: a recurrent state that is kept lazily on a grid of absolute positions.

Runs one head of the gated delta rule in f32 in two ways. The in-place way overwrites its state with every call and begins
its chunks at the call. The lazy way keeps the state at the last grid line (a multiple of LINE of the sequence's own
position) and one row (key, update, decay) for each token since. Both see the same tokens under random schedules of
chunks, drafts that are rejected, passes that were issued ahead and dropped, steps that are retried, and forks.
Prints how many schedules end with the bits of the straight run, and the bytes that a decode step moves.

usage: lazy_state.py [SCHEDULES]
"""
import sys

import numpy as np

LINE = 16
KEY, VALUE = 128, 128
LENGTH = 200
F32 = np.float32


def tokens(seed):
    """q, k [LENGTH, KEY], v [LENGTH, VALUE], log decay g and beta [LENGTH] of one sequence."""
    random = np.random.default_rng(seed)
    q, k = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in random.standard_normal((2, LENGTH, KEY)))
    return (q.astype(F32), k.astype(F32), random.standard_normal((LENGTH, VALUE)).astype(F32),
            -np.exp(random.standard_normal(LENGTH)).astype(F32), random.random(LENGTH).astype(F32))


class Lazy:
    """The state at the line before `position`, and a ring of the rows since."""

    def __init__(self):
        self.position = 0
        self.state = np.zeros((KEY, VALUE), F32)
        self.keys = np.zeros((LINE, KEY), F32)
        self.updates = np.zeros((LINE, VALUE), F32)
        self.decays = np.zeros(LINE, F32)  # summed from the line on

    def fork(self):
        copy = Lazy()
        copy.position, copy.state = self.position, self.state.copy()
        copy.keys, copy.updates, copy.decays = self.keys.copy(), self.updates.copy(), self.decays.copy()
        return copy

    def rewind(self, position):
        """A move of the cursor; rows after it are zero again, which changes no sum."""
        assert position // LINE == self.position // LINE or position == self.position, "below the line: needs a snapshot"
        row = position % LINE
        self.keys[row:], self.updates[row:], self.decays[row:] = 0, 0, 0
        self.position = position

    def merge(self):
        """Moves the state to the line that the ring has reached, in the order of rows."""
        last = self.decays[LINE - 1]
        weights = np.exp(last - self.decays)
        state = np.exp(last) * self.state
        for row in range(LINE):
            state = state + weights[row] * np.outer(self.keys[row], self.updates[row])
        self.state = state
        self.keys[:], self.updates[:], self.decays[:] = 0, 0, 0

    def row(self, q, k, v, g, beta):
        """One token: always the same shapes and the same order of additions, whatever the call was cut into."""
        if self.position % LINE == 0 and self.position > 0 and np.any(self.decays):
            self.merge()
        row = self.position % LINE
        decay = (self.decays[row - 1] if row > 0 else F32(0)) + g
        weights = np.where(np.arange(LINE) < row, np.exp(decay - self.decays), F32(0)).astype(F32)
        read = np.exp(decay) * (k @ self.state) + (weights * (self.keys @ k)) @ self.updates
        update = beta * (v - read)
        self.keys[row], self.updates[row], self.decays[row] = k, update, decay
        weights[row] = 1
        self.position += 1
        return np.exp(decay) * (q @ self.state) + (weights * (self.keys @ q)) @ self.updates


class InPlace:
    """The state after the last token; a call of n tokens is one chunk that begins where the call does."""

    def __init__(self):
        self.position = 0
        self.state = np.zeros((KEY, VALUE), F32)

    def fork(self):
        copy = InPlace()
        copy.position, copy.state = self.position, self.state.copy()
        return copy

    def rewind(self, position):
        """Nothing to move: what a rejected token wrote stays. This is the corruption that peers have shipped."""
        self.position = position

    def chunk(self, q, k, v, g, beta):
        decay = np.cumsum(g, dtype=F32)
        relative = np.exp(np.tril(decay[:, None] - decay[None, :])).astype(F32)
        lower = np.tril(beta[:, None] * relative * (k @ k.T), -1)
        updates = np.linalg.solve(np.eye(len(g), dtype=F32) + lower,
                                  beta[:, None] * (v - np.exp(decay)[:, None] * (k @ self.state))).astype(F32)
        out = np.exp(decay)[:, None] * (q @ self.state) + np.tril(relative * (q @ k.T)) @ updates
        self.state = np.exp(decay[-1]) * self.state + (np.exp(decay[-1] - decay)[:, None] * k).T @ updates
        self.position += len(g)
        return out


def compute(kind, state, data, begin, end):
    q, k, v, g, beta = (x[begin:end] for x in data)
    if kind is InPlace:
        return state.chunk(q, k, v, g, beta)
    return np.stack([state.row(q[i], k[i], v[i], g[i], beta[i]) for i in range(end - begin)])


def run(kind, data, schedule, wrong):
    """Outputs of all tokens under a schedule of (what, number of tokens)."""
    state, out = kind(), []
    for what, count in schedule:
        begin = state.position
        count = min(count, LENGTH - begin)
        if count == 0:
            break
        if what == "fork":
            state = state.fork()
        elif what in ("drafts", "ahead", "retry"):
            # Tokens that do not count are written within the line, then taken back: drafts that were wrong, a pass that
            # was issued ahead on a wrong guess, a step that failed and runs again.
            most = min(count, LINE - 1 - begin % LINE)
            if most > 0:
                compute(kind, state, data if what == "retry" else wrong, begin, begin + most)
                state.rewind(begin)
        out.append(compute(kind, state, data, begin, begin + count))
    return np.concatenate(out)


def random_schedule(random, hostile):
    kinds = ["plain", "fork"] + (["drafts", "ahead", "retry"] if hostile else [])
    return [(kinds[random.integers(len(kinds))], int(random.choice([1, 1, 1, 3, 7, 16, 64]))) for _ in range(LENGTH)]


def main():
    num_schedules = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    random = np.random.default_rng(1)
    print(f"{'way':10} {'schedules':22} {'equal to the last bit':>22} {'largest difference':>19}")
    for kind in (InPlace, Lazy):
        for hostile in (False, True):
            equal, worst = 0, 0.0
            for seed in range(num_schedules):
                data, wrong = tokens(seed), tokens(seed + 10**6)
                straight = run(kind, data, [("plain", LENGTH)], wrong)
                out = run(kind, data, random_schedule(random, hostile), wrong)
                equal += np.array_equal(straight, out)
                worst = max(worst, float(np.abs(straight - out).max()))
            name = "with drafts, retries" if hostile else "chunks and forks"
            print(f"{kind.__name__:10} {name:22} {f'{equal} of {num_schedules}':>22} {worst:19.1e}")
    matrix = KEY * VALUE * 4
    row = (KEY + VALUE + 1) * 4
    lazy = matrix + row * (LINE - 1) / 2 + row + 2 * matrix / LINE
    print(f"bytes of a head and decode step: in place {2 * matrix / 1024:.0f} KiB, lazy {lazy / 1024:.1f} KiB ({lazy / (2 * matrix):.2f})")


if __name__ == "__main__":
    main()
