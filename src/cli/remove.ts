import type { Args } from './args.ts'
import { editEntries } from './edit-entries.ts'
import type { Io } from './io.ts'

/** `pegboard remove <name> …`. */
export const run = (args: Args, io: Io): Promise<number> => editEntries('remove', args, io)
