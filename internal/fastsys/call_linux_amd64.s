#include "textflag.h"

// MOVL of a constant into AX is the five bytes before SYSCALL's two that gVisor looks for: nothing may come between.

#define CALL(name, number) \
TEXT name(SB), NOSPLIT, $0-40 \
	MOVQ a+0(FP), DI \
	MOVQ b+8(FP), SI \
	MOVQ c+16(FP), DX \
	MOVQ d+24(FP), R10 \
	MOVL $number, AX \
	SYSCALL \
	MOVQ AX, ret+32(FP) \
	RET

CALL(·rawRead, 0)
CALL(·rawWrite, 1)
CALL(·rawClose, 3)
CALL(·rawFstat, 5)
CALL(·rawFchmod, 91)
CALL(·rawFchown, 93)
CALL(·rawOpenat, 257)
CALL(·rawMkdirat, 258)
CALL(·rawUtimensat, 280)
