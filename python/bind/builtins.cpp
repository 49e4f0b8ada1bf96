// lithify._builtins: calls that go to a function of Python where an argument is a number that is followed.
//
// - Of types, as int(x): no function of Python can stand for a type, and isinstance(x, int) has to work as before. The
//   vectorcall slot of the type is replaced, which every call of a type uses.
// - Of objects of a type, as of functions with a functools.lru_cache: the slot tp_call of the type is replaced.
//
// Needs the full API of one version of Python, and is optional.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <vector>

namespace {

struct Type {
  PyTypeObject* type;
  vectorcallfunc before;
};
struct TypeOfCallables {
  PyTypeObject* type;
  ternaryfunc before;
};

std::vector<Type> types;                 // a few
std::vector<TypeOfCallables> callables;  // a few
std::vector<PyTypeObject*> watched;      // exact types of arguments
PyObject* function = nullptr;            // called with what is called and the arguments

bool is_watched(PyObject* argument) { return std::ranges::find(watched, Py_TYPE(argument)) != watched.end(); }

bool is_watched_inside(PyObject* argument) {
  if (is_watched(argument)) return true;
  if (!PyTuple_Check(argument)) return false;
  PyObject** items = &PyTuple_GET_ITEM(argument, 0);
  return std::any_of(items, items + PyTuple_GET_SIZE(argument), is_watched);
}

bool any_value_watched(PyObject* named) {
  Py_ssize_t at = 0;
  PyObject* value = nullptr;
  while (named && PyDict_Next(named, &at, nullptr, &value))
    if (is_watched_inside(value)) return true;
  return false;
}

// ---- types -------------------------------------------------------------------------------------------------------

/// What the call of a type did before.
PyObject* construct_as_before(PyObject* type, PyObject* const* args, size_t nargsf, PyObject* names) {
  const auto found = std::ranges::find(types, reinterpret_cast<PyTypeObject*>(type), &Type::type);
  if (found != types.end() && found->before) return found->before(type, args, nargsf, names);
  const Py_ssize_t count = PyVectorcall_NARGS(nargsf);
  PyObject* positional = PyTuple_New(count);
  if (!positional) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(positional, i, Py_NewRef(args[i]));
  PyObject* named = names ? PyDict_New() : nullptr;
  PyObject* result = nullptr;
  bool ok = !names || named;
  for (Py_ssize_t i = 0; ok && names && i < PyTuple_GET_SIZE(names); ++i)
    ok = PyDict_SetItem(named, PyTuple_GET_ITEM(names, i), args[count + i]) == 0;
  if (ok) result = Py_TYPE(type)->tp_call(type, positional, named);
  Py_DECREF(positional);
  Py_XDECREF(named);
  return result;
}

PyObject* construct(PyObject* type, PyObject* const* args, size_t nargsf, PyObject* names) {
  const Py_ssize_t count = PyVectorcall_NARGS(nargsf);
  if (!function || names || std::none_of(args, args + count, is_watched))
    return construct_as_before(type, args, nargsf, names);
  std::vector<PyObject*> all = {nullptr, type};
  all.insert(all.end(), args, args + count);
  PyObject* callee = Py_NewRef(function);
  PyObject* result = PyObject_Vectorcall(callee, all.data() + 1,
                                         static_cast<size_t>(count + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  Py_DECREF(callee);
  if (result != Py_NotImplemented) return result;
  Py_DECREF(result);
  return construct_as_before(type, args, nargsf, names);
}

// ---- objects -----------------------------------------------------------------------------------------------------

/// function(callable, *args, **named).
PyObject* call_function(PyObject* callable, PyObject* args, PyObject* named) {
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  PyObject* all = PyTuple_New(count + 1);
  if (!all) return nullptr;
  PyTuple_SET_ITEM(all, 0, Py_NewRef(callable));
  for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(all, i + 1, Py_NewRef(PyTuple_GET_ITEM(args, i)));
  PyObject* callee = Py_NewRef(function);
  PyObject* result = PyObject_Call(callee, all, named);
  Py_DECREF(callee);
  Py_DECREF(all);
  return result;
}

PyObject* call(PyObject* callable, PyObject* args, PyObject* named) {
  PyObject** items = &PyTuple_GET_ITEM(args, 0);
  const bool follows =
      function && (std::any_of(items, items + PyTuple_GET_SIZE(args), is_watched_inside) || any_value_watched(named));
  if (follows) {
    PyObject* result = call_function(callable, args, named);
    if (result != Py_NotImplemented) return result;
    Py_DECREF(result);
  }
  const auto found = std::ranges::find(callables, Py_TYPE(callable), &TypeOfCallables::type);
  // Another thread may have put the slot back meanwhile.
  return (found != callables.end() ? found->before : Py_TYPE(callable)->tp_call)(callable, args, named);
}

// ---- the module --------------------------------------------------------------------------------------------------

PyObject* restore(PyObject*, PyObject*) {
  for (const Type& t : types) t.type->tp_vectorcall = t.before;
  for (const TypeOfCallables& t : callables) t.type->tp_call = t.before;
  types.clear();
  callables.clear();
  watched.clear();
  Py_CLEAR(function);
  Py_RETURN_NONE;
}

bool append_types(PyObject* from, std::vector<PyTypeObject*>& to) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(from); ++i) {
    PyObject* item = PyTuple_GET_ITEM(from, i);
    if (!PyType_Check(item)) return false;
    to.push_back(reinterpret_cast<PyTypeObject*>(item));
  }
  return true;
}

PyObject* replace(PyObject*, PyObject* args) {
  PyObject *called, *of, *arguments, *callee;
  if (!PyArg_ParseTuple(args, "O!O!O!O", &PyTuple_Type, &called, &PyTuple_Type, &of, &PyTuple_Type, &arguments,
                        &callee))
    return nullptr;
  std::vector<PyTypeObject*> constructed, objects, exact;
  if (function || !append_types(called, constructed) || !append_types(of, objects) || !append_types(arguments, exact)) {
    PyErr_SetString(PyExc_RuntimeError, function ? "calls are replaced already" : "types are expected");
    return nullptr;
  }
  function = Py_NewRef(callee);
  watched = std::move(exact);
  for (PyTypeObject* type : constructed) {
    types.push_back({type, type->tp_vectorcall});
    type->tp_vectorcall = construct;
  }
  for (PyTypeObject* type : objects) {
    callables.push_back({type, type->tp_call});
    type->tp_call = call;
  }
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"replace", replace, METH_VARARGS,
     "replace(types, callables, arguments, function): a call of one of the types, or of an object whose type is one of "
     "`callables`, is a call of the function with what is called and its arguments, where one of these is exactly of "
     "one of the types `arguments`. If the function returns NotImplemented, the call is what it was before."},
    {"restore", restore, METH_NOARGS, "Puts back what was there before."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "_builtins",
                          "Calls of types and objects, replaced.",
                          -1,
                          methods,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__builtins() { return PyModule_Create(&definition); }
