// stack_switch.cpp - callee-saved registers on one stack, the same registers from another.
#include "stack_switch.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef EMULATED_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)

extern "C" void emulated_switch(void **save, void *pointer);
asm(".text\n"
    ".type emulated_switch, @function\n"
    ".hidden emulated_switch\n"
    ".globl emulated_switch\n"
    "emulated_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n"
    ".size emulated_switch, . - emulated_switch\n");

static void *prepare(char *top, void (*start)())
{
    void **p = (void **)top;
    *--p = NULL; /* the stack as a call leaves it: 8 bytes past a multiple of 16 */
    *--p = (void *)start;
    for (int i = 0; i < 6; i++) *--p = NULL;
    return p;
}

#else

#include <ucontext.h>

static void emulated_switch(void **save, void *pointer)
{
    ucontext_t here;
    *save = &here;
    if (swapcontext(&here, (ucontext_t *)pointer)) abort();
}

static void *prepare(char *top, void (*start)())
{
    ucontext_t *c = (ucontext_t *)(((uintptr_t)top - sizeof *c) / 64 * 64);
    if (getcontext(c)) abort();
    c->uc_stack.ss_sp = (char *)c - (128 << 10);
    c->uc_stack.ss_size = 128 << 10;
    c->uc_link = NULL;
    makecontext(c, start, 0);
    return c;
}

#endif

static void (*first_call)();
static stack_place *entered_from;

static void arrive()
{
#ifdef EMULATED_ASAN
    __sanitizer_finish_switch_fiber(NULL, &entered_from->bottom, &entered_from->bytes);
#endif
    first_call();
}

void *stack_prepare(char *stack, size_t bytes, void (*start)())
{
    first_call = start;
    return prepare(stack + bytes, arrive);
}

void stack_enter(stack_place *from, void *pointer, char *stack, size_t bytes)
{
    entered_from = from;
#ifdef EMULATED_ASAN
    __sanitizer_start_switch_fiber(&from->fake, stack, bytes);
#else
    (void)stack;
    (void)bytes;
#endif
    emulated_switch(&from->pointer, pointer);
#ifdef EMULATED_ASAN
    __sanitizer_finish_switch_fiber(from->fake, NULL, NULL);
#endif
}

void stack_leave(void **pointer, stack_place *to)
{
#ifdef EMULATED_ASAN
    void *fake = NULL;
    __sanitizer_start_switch_fiber(&fake, to->bottom, to->bytes);
#endif
    emulated_switch(pointer, to->pointer);
#ifdef EMULATED_ASAN
    __sanitizer_finish_switch_fiber(fake, &to->bottom, &to->bytes);
#endif
}
