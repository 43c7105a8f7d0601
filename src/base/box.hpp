#pragma once

#include <memory>
#include <utility>

namespace leat {

// A value on the heap, for types that contain themselves: copied with its owner, compared by value, never empty
// (except after a move from it).
template <class T>
class Box {
  public:
    // Takes a T only, so that it is never chosen to copy a Box.
    Box(T value) : value_(std::make_unique<T>(std::move(value))) {}  // NOLINT(google-explicit-constructor)
    Box(const Box& other) : value_(std::make_unique<T>(*other.value_)) {}
    Box(Box&&) noexcept = default;
    Box& operator=(const Box& other) {
        value_ = std::make_unique<T>(*other.value_);
        return *this;
    }
    Box& operator=(Box&&) noexcept = default;
    ~Box() = default;

    [[nodiscard]] const T& operator*() const { return *value_; }
    [[nodiscard]] T& operator*() { return *value_; }
    [[nodiscard]] const T* operator->() const { return value_.get(); }
    [[nodiscard]] T* operator->() { return value_.get(); }

    friend bool operator==(const Box& left, const Box& right) { return *left == *right; }

  private:
    std::unique_ptr<T> value_;
};

}  // namespace leat
