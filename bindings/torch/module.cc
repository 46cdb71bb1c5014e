// bindings/torch/module.cc - the Python module _gcoll_torch: creates process groups. gcoll/torch.py is its
// face.
#include <torch/csrc/utils/pybind.h>

#include <pybind11/stl.h>

#include "process_group.h"

namespace gcoll_torch {

static c10::intrusive_ptr<ProcessGroupGcoll>
create(const c10::intrusive_ptr<c10d::Store> &store, uint32_t rank, uint32_t size, int64_t timeout_ms,
       const std::vector<int64_t> &job_ranks, const std::string &transport, const std::string &interface,
       const std::string &algorithm, const std::string &tuning, const std::string &same, bool checksum) {
    static const char *const names[] = {"", "ranks", "runs", "nowhere"};
    Settings settings;
    settings.rank = rank;
    settings.size = size;
    settings.timeout_ms = timeout_ms;
    settings.job_ranks = job_ranks;
    settings.transport = transport;
    settings.interface = interface;
    settings.algorithm = algorithm;
    settings.tuning = tuning;
    settings.checksum = checksum;
    for (settings.same = 0; settings.same < 4; settings.same++)
        if (same == names[settings.same])
            return c10::make_intrusive<ProcessGroupGcoll>(store, settings);
    throw std::invalid_argument("gcoll: same is '" + same + "'; allowed are ranks, runs, nowhere");
}

} // namespace gcoll_torch

PYBIND11_MODULE(_gcoll_torch, module) {
    using namespace gcoll_torch;
    py::module_::import("torch.distributed"); // has the base class
    py::class_<ProcessGroupGcoll, c10::intrusive_ptr<ProcessGroupGcoll>, Base>(module, "ProcessGroupGcoll")
        .def("break_group", &ProcessGroupGcoll::break_group, py::arg("reason"),
             py::call_guard<py::gil_scoped_release>())
        .def("culprit", &ProcessGroupGcoll::culprit, py::call_guard<py::gil_scoped_release>());
    module.def("create", &create, py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout_ms"),
               py::arg("job_ranks"), py::arg("transport"), py::arg("interface"), py::arg("algorithm"),
               py::arg("tuning"), py::arg("same"), py::arg("checksum"),
               py::call_guard<py::gil_scoped_release>());
    module.def("close_all", &Channel::close_all, py::call_guard<py::gil_scoped_release>());
    module.attr("gcoll_version") = gcoll_version();
}
