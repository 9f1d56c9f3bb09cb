#!/usr/bin/env python3
"""An independent model of the worker's cost learning and of its search for bad inputs.

Writes worker.json beside it: inputs, and what a Rust implementation must make of them.
Needs nothing but the standard library. Run: python3 model.py
"""
import json
import math
import pathlib

MASK = (1 << 64) - 1


def splitmix(state):
    """One step of SplitMix64: (new state, number)."""
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return state, z ^ (z >> 31)


class Cost:
    """One key: rho = ln(actual / prior) is believed to be normal with mean mu and deviation sigma."""

    def __init__(self):
        self.mu, self.var, self.streak, self.slot = 0.0, 0.09, 0, 0

    def age(self, slot):
        self.mu /= 2.0 ** ((slot - self.slot) // 64 if slot > self.slot else 0)
        self.slot = slot

    def learn(self, prior, actual, slot):
        self.age(slot)
        r = math.log(actual / prior) - self.mu
        sign = 1 if r > 0 else -1
        if abs(r) > 2.5 * math.sqrt(self.var):
            self.streak = self.streak + sign if self.streak * sign > 0 else sign
        else:
            self.streak = 0
        delta = max(-math.log(2), min(math.log(2), r))
        self.mu += (0.5 if abs(self.streak) >= 2 else 0.2) * delta
        self.var = max(0.0025, 0.8 * (self.var + 0.2 * min(delta * delta, 9 * self.var)))

    def predict(self, prior):
        return [prior * math.exp(self.mu + k * math.sqrt(self.var)) for k in (0.0, 1.5, 2.5)]

    def within(self, prior, limit):
        x = (math.log(limit / prior) - self.mu) / math.sqrt(self.var)
        return 0.5 * (1 + math.erf(x / math.sqrt(2)))


def search(bad):
    """Generalised binary splitting over places; bad[i] tells whether place i is bad. (bad, checks)"""
    n, at, f, m, checks, found = len(bad), 0, 0, 0, 0, []
    while at < n:
        p = (f + 0.5) / (m + 1)
        if f == 0:
            g = n - at
        elif p >= 0.38:
            g = 1
        else:
            g = 2 ** max(0, math.floor(math.log2(0.693 / p)))
        low, high = at, min(n, at + g)
        checks += 1
        if not any(bad[low:high]):
            m += high - low
            at = high
            continue
        while high - low > 1:
            middle = low + (high - low) // 2
            checks += 1
            if any(bad[low:middle]):
                high = middle
            else:
                low = middle
        found.append(low)
        f, m, at = f + 1, m + (low + 1 - at), low + 1
    return found, checks


def cost_case(seed, priors, factor, change, jump, slots):
    state, cost, steps = seed, Cost(), []
    for i in range(60):
        state, z = splitmix(state)
        prior = priors[i % len(priors)]
        jitter = 0.92 + 0.16 * (z >> 11) / 2.0**53
        outlier = 100 if i == jump else 1
        actual = int(prior * jitter * outlier * (factor if i >= change else 1))
        slot = i * slots
        cost.age(slot)
        steps.append({"prior_ns": prior, "actual_ns": actual, "slot": slot,
                      "t_ns": cost.predict(prior), "within": cost.within(prior, 2 * prior)})
        cost.learn(prior, actual, slot)
    return steps


def bad_case(seed, n, k, order):
    state, places = seed, list(range(n))
    for i in range(n - 1, 0, -1):
        state, z = splitmix(state)
        j = z % (i + 1)
        places[i], places[j] = places[j], places[i]
    chosen = {"random": places[:k], "first": range(k), "last": range(n - k, n),
              "spread": [i * n // k for i in range(k)] if k else []}[order]
    bad = [False] * n
    for i in chosen:
        bad[i] = True
    found, checks = search(bad)
    assert found == sorted(chosen)
    return {"inputs": n, "order": order, "bad": found, "checks": checks}


def main():
    costs = [cost_case(1, [10**9], 1, 0, 30, 1), cost_case(2, [10**7, 4 * 10**8], 3, 20, -1, 1),
             cost_case(3, [10**6], 0.1, 0, -1, 90), cost_case(4, [10**8], 10, 5, -1, 2)]
    orders = ["random", "first", "last", "spread"]
    searches = [bad_case(7 * k + i, n, k, order) for n in (1, 2, 13, 1024)
                for k in (0, 1, 8, 64, 512, 1024) if k <= n for i, order in enumerate(orders)]
    out = pathlib.Path(__file__).with_name("worker.json")
    out.write_text(json.dumps({"cost": costs, "search": searches}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
