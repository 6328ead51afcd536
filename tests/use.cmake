# eval, chat and data show, as a user runs them: on a model that the test trains for a few steps.
add_test(NAME e2e.use COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/use.sh $<TARGET_FILE:stoa> ${CMAKE_SOURCE_DIR})
set_tests_properties(e2e.use PROPERTIES TIMEOUT ${STOA_TEST_SECONDS})
