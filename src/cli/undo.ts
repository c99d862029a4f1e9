import { pathFrom } from '../config/machine.ts'
import { listUndo, undo } from '../setup/file-edits.ts'
import { type Args, readOption, writeAnswer } from './args.ts'
import { findConfig } from './find-config.ts'
import { formatTable, type Io } from './io.ts'
import { machineOf, setupDir } from './machine-of.ts'

/** `pegboard undo`: puts the bytes back that a command of Pegboard changed. */
export async function run(args: Args, io: Io): Promise<number> {
  if (args.values['list'] === true) return await listChanges(args, io)
  const [id] = args.positionals
  const { file } = id === undefined ? await findConfig(readOption(args, 'config'), io) : {}
  const undone = await undo(setupDir(io), id, {
    force: args.values['force'] === true,
    ...(file === undefined ? {} : { config: pathFrom(io.cwd, file, machineOf(io)) }),
  })
  const files = undone.files.map((file) => `  ${file}\n`).join('')
  writeAnswer(args, io, undone, `Undone: ${undone.reason}.\n${files}`)
  return 0
}

async function listChanges(args: Args, io: Io): Promise<number> {
  const changes = (await listUndo(setupDir(io))).toReversed()
  const rows = changes.map(({ id, at, reason, undone, files }) => [
    ...[id, at, undone ? `${reason} (undone)` : reason],
    files.join(', '),
  ])
  const text = rows.length === 0 ? 'Pegboard has changed no configuration file.\n' : formatTable(rows)
  writeAnswer(args, io, { changes }, text)
  return 0
}
