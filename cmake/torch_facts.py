# Prints what cmake/torch.cmake needs to know of torch, in lines "name value". Fails where torch does not do.
import os
import sys
import sysconfig

import torch
import torch.distributed

version = torch.__version__.split("+")[0]
numbers = tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in version.split(".")[:2])
if numbers < (1, 13) or not torch.distributed.is_available():
    sys.exit(1)
root = os.path.dirname(torch.__file__)
abi = getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True)
print("python", sys.executable)
print("version", version)
print("suffix", sysconfig.get_config_var("EXT_SUFFIX"))
print("root", root)
print("include_dirs", sysconfig.get_path("include"))
print("library_dir", os.path.join(root, "lib"))
print("cxx11_abi", int(abi))
print("pybind_compiler", getattr(torch._C, "_PYBIND11_COMPILER_TYPE", None) or "")
print("pybind_stdlib", getattr(torch._C, "_PYBIND11_STDLIB", None) or "")
print("pybind_abi", getattr(torch._C, "_PYBIND11_BUILD_ABI", None) or "")
