/* HUNDRED(X) is X(tens, units) for each number of two digits. */
#ifndef BENCH_HUNDRED_H
#define BENCH_HUNDRED_H

#define TEN(X, tens) \
    X(tens, 0) X(tens, 1) X(tens, 2) X(tens, 3) X(tens, 4) X(tens, 5) X(tens, 6) X(tens, 7) X(tens, 8) X(tens, 9)
#define HUNDRED(X) TEN(X, 0) TEN(X, 1) TEN(X, 2) TEN(X, 3) TEN(X, 4) TEN(X, 5) TEN(X, 6) TEN(X, 7) TEN(X, 8) TEN(X, 9)

#endif
