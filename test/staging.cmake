# Devices that are not there, and the staging of buffers that lie in their memory.
set(pretend pretend_work.cc pretend_memory.cc pretend_device.cc)
gcoll_test(pretend_device_test THREADS LAYERS gcoll_base SOURCES pretend_device_test.cc ${pretend})
