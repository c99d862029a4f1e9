#!/usr/bin/env node
/** Stands in for a person's browser: opens the address, and follows it back to whoever waits for the answer. */
await fetch(process.argv[2])
