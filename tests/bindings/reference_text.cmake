# Writes the greedy text of the command for PROMPT to OUTPUT, without the final line break.
file(READ "${PROMPT}" prompt)
execute_process(
  COMMAND "${QUIRE}" generate --model "${MODEL}" --prompt "${prompt}" --temperature 0 --max-new-tokens 48 --quiet
  OUTPUT_VARIABLE text RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "quire generate failed: ${status}")
endif()
string(REGEX REPLACE "\n$" "" text "${text}")
string(LENGTH "${text}" length)
if(length LESS 40)
  message(FATAL_ERROR "quire generate wrote ${length} bytes: ${text}")
endif()
file(WRITE "${OUTPUT}" "${text}")
