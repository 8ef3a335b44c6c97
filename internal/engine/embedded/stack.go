package embedded

// stackBytes is more than what an evaluation takes of its goroutine's stack, most times.
const stackBytes = 96 << 10

// growStack makes room on the stack of a new goroutine. An evaluation goes deep: its stack would be moved again and
// again, always to one of twice the size, which took two fifths of the time of a short evaluation.
//
//go:noinline
func growStack() byte {
	var room [stackBytes]byte
	return room[len(room)-1-int(one)]
}

// one keeps the compiler from doing away with the room.
var one byte = 1
