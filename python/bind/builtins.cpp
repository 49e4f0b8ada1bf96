// lithify._builtins: calls of types such as int(x) go to a function of Python where x is a number that is followed. No
// function of Python can stand for a type, and isinstance(x, int) has to work as before. So the vectorcall slot of the
// type is replaced, which every call of a type uses. Needs the full API of one version of Python, and is optional.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <vector>

namespace {

struct Replaced {
  PyTypeObject* type;
  vectorcallfunc before;
};

std::vector<Replaced> replaced;      // the types; few
std::vector<PyTypeObject*> watched;  // exact types of arguments
PyObject* function = nullptr;        // called with the type and the arguments

bool is_watched(PyObject* argument) { return std::ranges::find(watched, Py_TYPE(argument)) != watched.end(); }

/// What the call did before.
PyObject* call_before(PyObject* type, PyObject* const* args, size_t nargsf, PyObject* names) {
  const auto found = std::ranges::find(replaced, reinterpret_cast<PyTypeObject*>(type), &Replaced::type);
  if (found != replaced.end() && found->before) return found->before(type, args, nargsf, names);
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

PyObject* call(PyObject* type, PyObject* const* args, size_t nargsf, PyObject* names) {
  const Py_ssize_t count = PyVectorcall_NARGS(nargsf);
  if (!function || names || std::none_of(args, args + count, is_watched)) return call_before(type, args, nargsf, names);
  std::vector<PyObject*> all = {nullptr, type};
  all.insert(all.end(), args, args + count);
  PyObject* callee = Py_NewRef(function);
  PyObject* result = PyObject_Vectorcall(callee, all.data() + 1,
                                         static_cast<size_t>(count + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  Py_DECREF(callee);
  if (result != Py_NotImplemented) return result;
  Py_DECREF(result);
  return call_before(type, args, nargsf, names);
}

PyObject* restore(PyObject*, PyObject*) {
  for (const Replaced& r : replaced) r.type->tp_vectorcall = r.before;
  replaced.clear();
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
  PyObject *types, *arguments, *callee;
  if (!PyArg_ParseTuple(args, "O!O!O", &PyTuple_Type, &types, &PyTuple_Type, &arguments, &callee)) return nullptr;
  std::vector<PyTypeObject*> kinds, of;
  if (function || !append_types(types, kinds) || !append_types(arguments, of)) {
    PyErr_SetString(PyExc_RuntimeError, function ? "types are replaced already" : "types are expected");
    return nullptr;
  }
  function = Py_NewRef(callee);
  watched = std::move(of);
  for (PyTypeObject* type : kinds) {
    replaced.push_back({type, type->tp_vectorcall});
    type->tp_vectorcall = call;
  }
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {{"replace", replace, METH_VARARGS,
                          "replace(types, arguments, function): type(x) is function(type, x) where x is exactly of one "
                          "of the types `arguments`, "
                          "unless that returns NotImplemented."},
                         {"restore", restore, METH_NOARGS, "Puts back what was there before."},
                         {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_builtins", "Calls of types, replaced.", -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__builtins() { return PyModule_Create(&definition); }
