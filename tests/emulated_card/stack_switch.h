/* stack_switch.h - how the CPU changes from one stack to another. */
#ifndef EMULATED_STACK_SWITCH_H
#define EMULATED_STACK_SWITCH_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define EMULATED_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATED_ASAN 1
#endif
#endif

/* The stack that enters others. */
struct stack_place {
    void *pointer;
    const void *bottom; /* of it, and what the sanitizer keeps of it */
    size_t bytes;
    void *fake;
};

/* A stack that calls start when it is first entered: its pointer. */
void *stack_prepare(char *stack, size_t bytes, void (*start)());

/* Goes on at a stack; comes back when that one leaves. */
void stack_enter(stack_place *from, void *pointer, char *stack, size_t bytes);
void stack_leave(void **pointer, stack_place *to);

#endif
