# cmake -DNM=<llvm-nm> -DOBJECT=<object> -P StandAlone.cmake: fails if OBJECT leaves a symbol undefined.
execute_process(COMMAND ${NM} --undefined-only ${OBJECT} OUTPUT_VARIABLE undefined RESULT_VARIABLE status)
if(status OR NOT undefined STREQUAL "")
  message(FATAL_ERROR "${OBJECT}: undefined symbols\n${undefined}")
endif()
