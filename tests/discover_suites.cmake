# Makes a test of each suite of a test program: cmake -DPROGRAM=... -DFILE=... -DPROPERTIES=... -DALONE=REGEX
# -DPREFIX=... -P THIS
#
# Under sanitizers, a process takes longer to begin than most tests take. Models, which take long, and suites that match ALONE
# have a process for each of their tests.
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "#[^\n]*" "" listed "${listed}")
string(REPLACE "\n" ";" listed "${listed}")
set(script "")
set(alone "Model|Snapshots")
if(ALONE)
  string(APPEND alone "|${ALONE}")
endif()
macro(add name)
  string(APPEND script "add_test([==[${PREFIX}/${name}]==] [==[${PROGRAM}]==] [==[--gtest_filter=${ARGN}]==])\n"
                       "set_tests_properties([==[${PREFIX}/${name}]==] PROPERTIES ${PROPERTIES})\n")
endmacro()
foreach(line IN LISTS listed)
  if(line MATCHES "^([^ ]+)\\. *$")
    set(suite ${CMAKE_MATCH_1})
    if(NOT suite MATCHES "${alone}")
      add(${suite} ${suite}.*)
    endif()
  elseif(suite MATCHES "${alone}" AND line MATCHES "^  ([^ ]+) *$")
    add(${suite}.${CMAKE_MATCH_1} ${suite}.${CMAKE_MATCH_1})
  endif()
endforeach()
file(WRITE ${FILE} "${script}")
