# Flags every target of ours takes.
add_library(plim_flags INTERFACE)
target_compile_definitions(plim_flags INTERFACE _GNU_SOURCE)
target_compile_options(plim_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wpedantic -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes
  -Wpointer-arith $<$<C_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> -Wwrite-strings -Wcast-align -Wundef -fno-math-errno -fno-trapping-math -ffp-contract=off>)
if(PLIM_WERROR)
  target_compile_options(plim_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:-Werror>)
endif()
if(PLIM_SANITIZE)
  target_compile_options(plim_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined
                                              -fno-omit-frame-pointer)
  target_link_options(plim_flags INTERFACE -fsanitize=address,undefined)
endif()
