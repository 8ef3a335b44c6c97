package embedded

// stackBytes is more than most evaluations use of their goroutine's stack.
const stackBytes = 96 << 10

// growStack grows the stack of a new goroutine at once. An evaluation nests deeply. Without this, the runtime would
// copy its stack several times, each time to one of twice the size. That took two fifths of the time of a short
// evaluation.
//
//go:noinline
func growStack() byte {
	var room [stackBytes]byte
	return room[len(room)-1-int(one)]
}

// one keeps the compiler from optimizing the array away.
var one byte = 1
