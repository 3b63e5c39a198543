#pragma once
// What `oomb-profile run` calls in the recorder's shared library, which it loads by name: CUPTI samples counters of the
// devices whoever uses them, and this process outlives the program.

// Begins to sample all devices into a profile of its own at `out`; once until it is ended. 1: begun, or refused with a
// note in it. 0: no file, stderr has the reason.
extern "C" int oomb_begin_counters(const char* out);
// After a begin that gave 1. 1: the file is whole. 0: it is not, stderr has the reason.
extern "C" int oomb_end_counters();
