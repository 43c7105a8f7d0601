// The events of an IO request, those of [seastar-tracer] (docs/references.md): 24 bytes a request with tiny headers.
//
//     queued       3 + 7   id, scheduling class, length; the direction is in the event's name
//     dispatched   3 + 4   id
//     completed    3 + 4   id
//     wait         3       the request at the head of the queue finds no capacity. It is the next that is dispatched.
//
// An id is that of one request at a time, from queued to completed.
#pragma once

#include <leat/tracepoint.h>

#include <cstdint>

#include "operation.hpp"

namespace io_tracer {

enum Class : std::uint8_t { kMain, kExit, kLr, kClasses };

}  // namespace io_tracer

// A trace shows the names. Where classes come and go while the program runs, their numbers are traced, and the names
// are in the trace's environment: docs/seastar.md.
LEAT_ENUM(io_class, LEAT_VALUE("main", io_tracer::kMain), LEAT_VALUE("exit", io_tracer::kExit),
          LEAT_VALUE("lr", io_tracer::kLr))

// In blocks of 512 bytes, two bytes do for requests of up to 32 MiB.
#define IO_QUEUED_FIELDS(FIELD)                                \
    FIELD(integer, uint32_t, request, request)                 \
    FIELD(enumeration, io_class, uint8_t, class, class_number) \
    FIELD(integer, uint16_t, blocks, length / 512)
LEAT_EVENT_CLASS(io, queued, IO_QUEUED_FIELDS, std::uint32_t request, std::uint8_t class_number, std::uint32_t length);
LEAT_EVENT_INSTANCE(io, queued, read_queued, LEAT_INFO,
                    (std::uint32_t request, std::uint8_t class_number, std::uint32_t length),
                    (request, class_number, length));
LEAT_EVENT_INSTANCE(io, queued, write_queued, LEAT_INFO,
                    (std::uint32_t request, std::uint8_t class_number, std::uint32_t length),
                    (request, class_number, length));

#define IO_REQUEST_FIELDS(FIELD) FIELD(integer, uint32_t, request, request)
LEAT_EVENT_CLASS(io, request, IO_REQUEST_FIELDS, std::uint32_t request);
LEAT_EVENT_INSTANCE(io, request, dispatched, LEAT_INFO, (std::uint32_t request), (request));
LEAT_EVENT_INSTANCE(io, request, completed, LEAT_INFO, (std::uint32_t request), (request));

LEAT_TRACEPOINT(io, wait, LEAT_INFO, LEAT_NO_FIELDS, void);
