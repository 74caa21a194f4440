// The seam to Python: a model's file is read, the model is compiled once, engines are made of it and explain rows.

#include "bindings/bindings.hpp"

NB_MODULE(_core, m) {
    using namespace linear_treeshap;
    // A daemon thread that is still at work when the interpreter ends keeps what it holds. That is no leak, and
    // nobody who ends a script wants to read about it.
    nb::set_leak_warnings(false);
#if defined(_WIN32)
    nb::module_::import_("atexit").attr("register")(nb::cpp_function(hold_others_at_exit));
#endif
    bind_readers(m);
    bind_trees(m);
    bind_program(m);
    bind_values(m);
    bind_sets(m);
    bind_background(m);
    bind_rows(m);
    bind_paper(m);
}
