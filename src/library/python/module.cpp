// leat._ctf: the Python module `leat` over <leat/ctf.h>. It needs the stable ABI of Python 3.9 alone.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cxxabi.h>
#include <leat/ctf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace {

// Owns a reference, or none.
struct Release {
    void operator()(PyObject* object) const { Py_DECREF(object); }
};
using Object = std::unique_ptr<PyObject, Release>;

Object none() {
    Py_INCREF(Py_None);
    return Object(Py_None);
}

// What the Python part of the module gives us: its classes.
PyObject* error_class = nullptr;  // NOLINT(*-avoid-non-const-global-variables)
PyObject* event_class = nullptr;  // NOLINT(*-avoid-non-const-global-variables)
PyObject* enum_class = nullptr;   // NOLINT(*-avoid-non-const-global-variables)
// Whose they are; below 0: nobody's.
std::int64_t interpreter = -1;  // NOLINT(*-avoid-non-const-global-variables)

struct Reader {
    PyObject_HEAD  // NOLINT(*)
        leat_ctf_reader* reader;
    bool is_busy;            // a thread is in it that lets others run
    PyThreadState* waiting;  // of that thread; null: it has the lock of the interpreter
    bool is_selective;       // to the next event it may be far
    unsigned looks;          // whether a signal has come
};

// One thread at a time. Others run meanwhile, but for this reader.
class Use {
  public:
    explicit Use(Reader* reader) : reader_(reader) {
        if (reader->is_busy) {
            PyErr_SetString(PyExc_RuntimeError, "another thread uses this reader");
        } else if (reader->reader == nullptr) {
            PyErr_SetString(PyExc_ValueError, "the reader is closed");
        } else {
            reader->is_busy = is_ours_ = true;
        }
    }
    ~Use() {
        if (is_ours_) reader_->is_busy = false;
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    // If not, there is an exception.
    explicit operator bool() const { return is_ours_; }

  private:
    Reader* reader_;
    bool is_ours_ = false;
};

// While the interpreter ends, it ends threads that want its lock, but for the main one. They have objects on their
// stacks, so they wait until all is over, as with Python 3.14.
template <class Call>
auto with_lock_of_interpreter(const Call& call) {
    try {
        return call();
    } catch (const abi::__forced_unwind&) {
        for (;;) ::pause();
    }
}
void come_back(PyThreadState* thread) {
    with_lock_of_interpreter([thread] { PyEval_RestoreThread(thread); });
}
// Code in Python may let other threads run meanwhile.
template <class... Arguments>
Object call_python(PyObject* callable, const Arguments&... arguments) {
    return Object(
        with_lock_of_interpreter([&] { return PyObject_CallFunctionObjArgs(callable, arguments.get()..., nullptr); }));
}

// Text may have bytes that are no UTF-8.
Object text_of(const char* bytes, std::size_t size) {
    return Object(PyUnicode_DecodeUTF8(bytes, static_cast<Py_ssize_t>(size), "backslashreplace"));
}
Object text_of(const char* text) {
    return Object(PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(strlen(text)), "backslashreplace"));
}

PyObject* raise_error(const char* text) {
    if (std::strcmp(text, "out of memory") == 0) return PyErr_NoMemory();
    if (const Object message = text_of(text)) PyErr_SetObject(error_class, message.get());
    return nullptr;
}
// If a signal has interrupted it, its handler's exception is there.
PyObject* raise_error(const leat_ctf_reader* reader) {
    return PyErr_Occurred() != nullptr ? nullptr : raise_error(leat_ctf_error(reader));
}

// Of a bytes object that stands for a path or a name. Null: there is an exception, also for a NUL in it.
const char* characters_of(const Object& bytes) {
    char* characters = nullptr;
    if (!bytes || PyBytes_AsStringAndSize(bytes.get(), &characters, nullptr) != 0) return nullptr;
    return characters;
}

// Values. An empty Object: there is an exception.

Object python_of(const leat_ctf_value* value);

// Adds the members of a struct; of a name, the first counts. False: there is an exception.
bool add_members(PyObject* dictionary, const leat_ctf_value* value) {
    const leat_ctf_value* part = leat_ctf_first_part(value);
    const std::size_t count = leat_ctf_part_count(value);
    for (std::size_t i = 0; i < count; ++i, part = leat_ctf_next_part(part)) {
        const Object name = text_of(leat_ctf_name(part));
        if (name && PyDict_GetItemWithError(dictionary, name.get()) != nullptr) continue;
        const Object member = name && PyErr_Occurred() == nullptr ? python_of(part) : Object();
        if (!member || PyDict_SetItem(dictionary, name.get(), member.get()) != 0) return false;
    }
    return true;
}

Object list_of(const leat_ctf_value* value) {
    const std::size_t count = leat_ctf_part_count(value);
    Object list(PyList_New(static_cast<Py_ssize_t>(count)));
    const leat_ctf_value* part = leat_ctf_first_part(value);
    for (std::size_t i = 0; list && i < count; ++i, part = leat_ctf_next_part(part)) {
        Object element = python_of(part);
        // The list takes the reference.
        if (!element || PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), element.release()) != 0) list.reset();
    }
    return list;
}

Object number_of(const leat_ctf_value* value, bool is_signed) {
    const std::int64_t number = leat_ctf_integer(value);
    Object integer(is_signed ? PyLong_FromLongLong(number)
                             : PyLong_FromUnsignedLongLong(static_cast<unsigned long long>(number)));
    if (!integer || leat_ctf_is_enum(value) == 0) return integer;
    std::vector<const char*> texts(leat_ctf_labels(value, nullptr, 0));
    leat_ctf_labels(value, texts.data(), texts.size());
    const Object labels(PyTuple_New(static_cast<Py_ssize_t>(texts.size())));
    for (std::size_t i = 0; labels && i < texts.size(); ++i) {
        Object label = text_of(texts[i]);
        if (!label) return nullptr;
        PyTuple_SetItem(labels.get(), static_cast<Py_ssize_t>(i), label.release());
    }
    if (!labels) return nullptr;
    return call_python(enum_class, integer, labels);
}

Object python_of(const leat_ctf_value* value) {
    switch (const leat_ctf_kind kind = leat_ctf_get_kind(value)) {
        case LEAT_CTF_NONE:
            return none();
        case LEAT_CTF_SIGNED:
        case LEAT_CTF_UNSIGNED:
            return number_of(value, kind == LEAT_CTF_SIGNED);
        case LEAT_CTF_REAL:
            return Object(PyFloat_FromDouble(leat_ctf_real(value)));
        case LEAT_CTF_TEXT: {
            std::size_t size = 0;
            const char* const bytes = leat_ctf_text(value, &size);
            return text_of(bytes, size);
        }
        case LEAT_CTF_STRUCT:
        case LEAT_CTF_ARRAY:
            break;
    }
    // The metadata decide how deep this goes.
    if (Py_EnterRecursiveCall(" in a field") != 0) return nullptr;
    Object result;
    if (leat_ctf_get_kind(value) == LEAT_CTF_ARRAY) {
        result = list_of(value);
    } else {
        result.reset(PyDict_New());
        if (result && !add_members(result.get(), value)) result.reset();
    }
    Py_LeaveRecursiveCall();
    return result;
}

template <class T, class Make>
Object optional_of(const leat_ctf_reader* reader, int (*get)(const leat_ctf_reader*, T*), Make make) {
    T number = 0;
    return get(reader, &number) != 0 ? Object(make(number)) : none();
}

Object event_of(leat_ctf_reader* reader) {
    const Object time = optional_of(reader, leat_ctf_event_time, PyLong_FromLongLong);
    const Object name = text_of(leat_ctf_event_name(reader));
    const Object level = optional_of(reader, leat_ctf_event_log_level, PyLong_FromLongLong);
    const Object contexts(PyDict_New());
    const Object fields(PyDict_New());
    if (!time || !name || !level || !contexts || !fields) return nullptr;
    for (const leat_ctf_scope scope : {LEAT_CTF_PACKET_CONTEXT, LEAT_CTF_EVENT_CONTEXT, LEAT_CTF_OWN_CONTEXT})
        if (!add_members(contexts.get(), leat_ctf_get_scope(reader, scope))) return nullptr;
    if (!add_members(fields.get(), leat_ctf_get_scope(reader, LEAT_CTF_FIELDS))) return nullptr;
    return call_python(event_class, time, name, level, contexts, fields);
}

// Methods.

Reader* self_of(PyObject* self) { return reinterpret_cast<Reader*>(self); }  // NOLINT(*-reinterpret-cast)

template <class Call>
auto let_others_run(Reader* reader, const Call& call) {
    reader->waiting = PyEval_SaveThread();
    auto result = call();
    come_back(std::exchange(reader->waiting, nullptr));
    return result;
}

// Handlers of signals are Python, and run in the main thread when that asks. Other threads may wait for a while until
// they let us.
int is_interrupted(void* self) {
    constexpr unsigned kBetweenLooks = 64;
    auto* const reader = static_cast<Reader*>(self);
    if (++reader->looks % kBetweenLooks != 0 || ::syscall(SYS_gettid) != ::getpid()) return 0;
    PyThreadState* const waiting = std::exchange(reader->waiting, nullptr);
    if (waiting != nullptr) come_back(waiting);
    const bool has_raised = PyErr_CheckSignals() != 0;
    if (waiting != nullptr) reader->waiting = PyEval_SaveThread();
    return has_raised ? 1 : 0;
}

PyObject* next(PyObject* self) {
    const Use use(self_of(self));
    if (!use) return nullptr;
    leat_ctf_reader* const reader = self_of(self)->reader;
    const auto go_on = [reader] { return leat_ctf_next(reader); };
    const int state = self_of(self)->is_selective ? let_others_run(self_of(self), go_on) : go_on();
    if (state < 0) return raise_error(reader);
    if (state == 0) return nullptr;  // the iteration ends
    Object event = event_of(reader);
    // Its file has changed meanwhile.
    if (event && leat_ctf_error(reader) != nullptr) return raise_error(reader);
    return event.release();
}

PyObject* seek(PyObject* self, PyObject* argument) {
    const long long time_ns = PyLong_AsLongLong(argument);
    if (time_ns == -1 && PyErr_Occurred() != nullptr) return nullptr;
    const Use use(self_of(self));
    if (!use) return nullptr;
    if (leat_ctf_seek(self_of(self)->reader, time_ns) != 0) return raise_error(self_of(self)->reader);
    return none().release();
}

PyObject* losses(PyObject* self, PyObject* /*none*/) {
    const Use use(self_of(self));
    if (!use) return nullptr;
    leat_ctf_losses found{};
    leat_ctf_get_losses(self_of(self)->reader, &found);
    return Py_BuildValue("(KKK)", static_cast<unsigned long long>(found.events),
                         static_cast<unsigned long long>(found.packets),
                         static_cast<unsigned long long>(found.unknown));
}

PyObject* environment(PyObject* self, PyObject* argument) {
    const Object name(PyUnicode_AsUTF8String(argument));
    const char* const key = characters_of(name);
    if (key == nullptr) return nullptr;
    const Use use(self_of(self));
    if (!use) return nullptr;
    const leat_ctf_reader* const reader = self_of(self)->reader;
    if (const char* const text = leat_ctf_environment_text(reader, key)) return text_of(text).release();
    std::int64_t number = 0;
    if (leat_ctf_environment_number(reader, key, &number) != 0) return PyLong_FromLongLong(number);
    return none().release();
}

PyObject* close(PyObject* self, PyObject* /*none*/) {
    Reader* const reader = self_of(self);
    if (reader->reader == nullptr) return none().release();
    const Use use(reader);
    if (!use) return nullptr;
    leat_ctf_close(reader->reader);
    reader->reader = nullptr;
    return none().release();
}

Object bytes_of(const void* data, std::size_t size) {
    return Object(PyByteArray_FromStringAndSize(static_cast<const char*>(data), static_cast<Py_ssize_t>(size)));
}

// (name, "q", "Q", "d" or "t", data, data of what is missing or None, texts or None)
Object column_of(const leat_ctf_column& column, std::size_t rows) {
    const bool is_text = column.type == LEAT_CTF_COLUMN_TEXT;
    const Object texts = is_text ? Object(PyList_New(static_cast<Py_ssize_t>(column.text_count))) : none();
    for (std::size_t i = 0; texts && is_text && i < column.text_count; ++i) {
        Object text = text_of(column.texts[i].bytes, column.texts[i].size);
        if (!text) return nullptr;
        PyList_SetItem(texts.get(), static_cast<Py_ssize_t>(i), text.release());
    }
    const Object name = text_of(column.name);
    const Object data = bytes_of(column.data, rows * sizeof(std::uint64_t));
    const Object missing = column.is_missing == nullptr ? none() : bytes_of(column.is_missing, rows);
    if (!texts || !name || !data || !missing) return nullptr;
    constexpr char kLetters[] = {'q', 'Q', 'd', 't'};  // NOLINT(*-avoid-c-arrays)
    return Object(Py_BuildValue("(OCOOO)", name.get(), static_cast<int>(kLetters[column.type]), data.get(),
                                missing.get(), texts.get()));
}

// read_columns(names or None, rows or None) -> [column]
PyObject* read_columns(PyObject* self, PyObject* arguments) {
    PyObject* names = nullptr;
    PyObject* wanted = nullptr;
    if (PyArg_ParseTuple(arguments, "OO", &names, &wanted) == 0) return nullptr;
    unsigned long long rows = UINT64_MAX;
    if (wanted != Py_None) {
        const Object number(PyNumber_Index(wanted));
        if (!number) return nullptr;
        rows = PyLong_AsUnsignedLongLong(number.get());
        if (PyErr_Occurred() != nullptr) return nullptr;
    }
    std::vector<Object> kept;
    std::vector<const char*> titles;
    const Py_ssize_t count = names == Py_None ? 0 : PySequence_Size(names);
    if (count < 0) return nullptr;
    for (Py_ssize_t i = 0; i < count; ++i) {
        const Object name(PySequence_GetItem(names, i));
        kept.emplace_back(name ? PyUnicode_AsUTF8String(name.get()) : nullptr);
        titles.push_back(characters_of(kept.back()));
        if (titles.back() == nullptr) return nullptr;
    }
    const Use use(self_of(self));
    if (!use) return nullptr;
    leat_ctf_reader* const reader = self_of(self)->reader;
    titles.push_back(nullptr);
    leat_ctf_columns* const read = let_others_run(self_of(self), [&] {
        return leat_ctf_read_columns(reader, names == Py_None ? nullptr : titles.data(), titles.size() - 1, rows);
    });
    const std::unique_ptr<leat_ctf_columns, void (*)(leat_ctf_columns*)> owner(read, leat_ctf_free_columns);
    const bool is_part = read != nullptr && wanted == Py_None && leat_ctf_error(reader) != nullptr;
    if (read == nullptr || is_part || PyErr_Occurred() != nullptr) return raise_error(reader);
    Object result(PyList_New(0));
    for (std::size_t i = 0; result && i < leat_ctf_column_count(read); ++i) {
        const Object column = column_of(*leat_ctf_get_column(read, i), leat_ctf_row_count(read));
        if (!column || PyList_Append(result.get(), column.get()) != 0) result.reset();
    }
    return result.release();
}

PyObject* itself(PyObject* self) {
    Py_INCREF(self);
    return self;
}

void destroy(PyObject* self) {
    leat_ctf_close(self_of(self)->reader);
    PyTypeObject* const type = Py_TYPE(self);
    auto* const release = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));  // NOLINT(*-reinterpret-cast)
    release(self);
    Py_DECREF(type);
}

// NOLINTBEGIN(*-avoid-c-arrays,*-avoid-non-const-global-variables,*-reinterpret-cast)
PyMethodDef reader_methods[] = {
    {"seek", seek, METH_O, nullptr},
    {"losses", losses, METH_NOARGS, nullptr},
    {"environment", environment, METH_O, nullptr},
    {"read_columns", read_columns, METH_VARARGS, nullptr},
    {"close", close, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot reader_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_iter, reinterpret_cast<void*>(itself)},
    {Py_tp_iternext, reinterpret_cast<void*>(next)},
    {Py_tp_methods, reader_methods},
    {0, nullptr},
};
PyType_Spec reader_spec = {"leat._ctf.Reader", sizeof(Reader), 0, Py_TPFLAGS_DEFAULT, reader_slots};
PyObject* reader_type = nullptr;

// open([path as bytes], filter or None, begin_ns, end_ns) -> Reader
PyObject* open(PyObject* /*module*/, PyObject* arguments) {
    PyObject* paths = nullptr;
    leat_ctf_options options = LEAT_CTF_OPTIONS;
    long long begin_ns = 0;
    long long end_ns = 0;
    if (PyArg_ParseTuple(arguments, "OzLL", &paths, &options.filter, &begin_ns, &end_ns) == 0) return nullptr;
    options.begin_ns = begin_ns;
    options.end_ns = end_ns;
    std::vector<Object> kept;
    std::vector<const char*> names;
    const Py_ssize_t count = PySequence_Size(paths);
    if (count < 0) return nullptr;
    for (Py_ssize_t i = 0; i < count; ++i) {
        kept.emplace_back(PySequence_GetItem(paths, i));
        names.push_back(characters_of(kept.back()));
        if (names.back() == nullptr) return nullptr;
    }
    char error[LEAT_CTF_ERROR_SIZE] = "";
    PyThreadState* const waiting = PyEval_SaveThread();
    leat_ctf_reader* const reader = leat_ctf_open(names.data(), names.size(), &options, error);
    come_back(waiting);
    if (reader == nullptr) return raise_error(error);
    auto* const allocate =
        reinterpret_cast<allocfunc>(PyType_GetSlot(reinterpret_cast<PyTypeObject*>(reader_type), Py_tp_alloc));
    PyObject* const self = allocate(reinterpret_cast<PyTypeObject*>(reader_type), 0);
    if (self == nullptr) {
        leat_ctf_close(reader);
        return nullptr;
    }
    self_of(self)->reader = reader;
    leat_ctf_set_interrupt(reader, is_interrupted, self);
    self_of(self)->is_selective = options.filter != nullptr || begin_ns != INT64_MIN || end_ns != INT64_MAX;
    return self;
}

// What was kept may be of an interpreter that has ended, and is not released.
void keep(PyObject*& kept, PyObject* given) {
    Py_INCREF(given);
    kept = given;
}

// use(Error, Event, Enum): the classes of what we make.
PyObject* use_classes(PyObject* /*module*/, PyObject* arguments) {
    PyObject* error = nullptr;
    PyObject* event = nullptr;
    PyObject* enumeration = nullptr;
    if (PyArg_ParseTuple(arguments, "OOO", &error, &event, &enumeration) == 0) return nullptr;
    const std::int64_t caller = PyInterpreterState_GetID(PyInterpreterState_Get());
    if (interpreter >= 0 && interpreter != caller) {
        PyErr_SetString(PyExc_ImportError, "another interpreter of this process has imported leat: only one can");
        return nullptr;
    }
    interpreter = caller;
    keep(error_class, error);
    keep(event_class, event);
    keep(enum_class, enumeration);
    return none().release();
}

PyMethodDef functions[] = {
    {"open", open, METH_VARARGS, nullptr},
    {"use", use_classes, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "leat._ctf", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};
// NOLINTEND(*-avoid-c-arrays,*-avoid-non-const-global-variables,*-reinterpret-cast)

}  // namespace

PyMODINIT_FUNC PyInit__ctf() {
    reader_type = PyType_FromSpec(&reader_spec);
    return reader_type == nullptr ? nullptr : PyModule_Create(&module);
}
