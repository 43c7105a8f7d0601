"""Counts of times, in memory that does not grow with their number."""

# A bucket is no wider than a 128th of what is in it, from 1 ns to 500 years.
BITS = 7


class Histogram:
    """Percentiles are at most 0.8 % too large; the smallest, the largest, the number and the sum are exact."""

    def __init__(self):
        self.buckets = {}
        self.count = 0
        self.sum = 0
        self.least = None
        self.most = 0

    def record(self, value):
        shift = value.bit_length() - BITS - 1
        bucket = value if shift <= 0 else (shift << BITS + 1) + (value >> shift)
        buckets = self.buckets
        buckets[bucket] = buckets.get(bucket, 0) + 1
        self.count += 1
        self.sum += value
        if value > self.most:
            self.most = value
        if self.least is None or value < self.least:
            self.least = value

    @staticmethod
    def end_of(bucket):
        """The largest value of a bucket."""
        shift = bucket >> BITS + 1
        return bucket if shift == 0 else ((bucket & (1 << BITS + 1) - 1) + 1 << shift) - 1

    def percentiles(self, parts):
        """For each part (0.99), in ascending order, a value that as many do not exceed. None: there are no values."""
        found = []
        seen = 0
        buckets = iter(sorted(self.buckets.items()))
        bucket = None
        for part in parts:
            while bucket is None or (seen < part * self.count and seen < self.count):
                bucket, count = next(buckets, (None, 0))
                if bucket is None:
                    return [None for _ in parts]
                seen += count
            found.append(min(self.end_of(bucket), self.most))
        return found

    def summary(self):
        """ns."""
        p50, p90, p99, p999 = self.percentiles((0.5, 0.9, 0.99, 0.999))
        mean = self.sum / self.count if self.count else None
        return {"count": self.count, "mean": mean and round(mean), "min": self.least, "p50": p50, "p90": p90, "p99": p99,
                "p99.9": p999, "max": self.most if self.count else None}

    def curve(self):
        """[nines, ns] for a plot: 1 nine is the 90th percentile. Up to the last that is known."""
        steps = [step / 10 for step in range(60) if self.count * 10 ** (-step / 10) >= 1]
        return [[nines, value] for nines, value in zip(steps, self.percentiles([1 - 10 ** -nines for nines in steps]))]
