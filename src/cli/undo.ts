import { listUndo, undo } from '../setup/file-edits.ts'
import type { Args } from './args.ts'
import { formatTable, type Io, writeJson } from './io.ts'
import { setupDir } from './machine-of.ts'

/** `pegboard undo`: puts the bytes back that a command of Pegboard changed. */
export async function run(args: Args, io: Io): Promise<number> {
  if (args.values['list'] === true) return await list(args, io)
  const undone = await undo(setupDir(io), args.positionals[0], { force: args.values['force'] === true })
  if (args.values['json'] === true) writeJson(io, undone)
  else io.stdout(`Undone: ${undone.reason}.\n${undone.files.map((file) => `  ${file}\n`).join('')}`)
  return 0
}

async function list(args: Args, io: Io): Promise<number> {
  const changes = (await listUndo(setupDir(io))).toReversed()
  if (args.values['json'] === true) writeJson(io, { changes })
  else if (changes.length === 0) io.stdout('Pegboard has changed no configuration file.\n')
  else
    io.stdout(
      formatTable(
        changes.map(({ id, at, reason, undone, files }) => [
          ...[id, at, undone ? `${reason} (undone)` : reason],
          files.join(', '),
        ]),
      ),
    )
  return 0
}
