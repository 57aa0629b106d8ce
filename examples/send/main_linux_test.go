package main

func Example() {
	main()
	// Output:
	// sent: SUCCESS
	// received: hello
}
