import { type Verdict, verdictOf, verdictRows } from '../app/explain-tool.ts'
import { type Args, writeAnswer } from './args.ts'
import { mayHave } from './call.ts'
import { callerForOptions } from './client-report.ts'
import { withTypedCommands } from './invocation.ts'
import { formatTable, type Io, UsageError } from './io.ts'
import { withApp } from './open-app.ts'

/** `pegboard why <tool>` and `pegboard why "<query>"`. Exit code 1 if the tool is unknown. */
export async function run(args: Args, io: Io): Promise<number> {
  const [name, ...more] = args.positionals
  if (name === undefined) throw new UsageError('why needs the name of a tool, or a query of several words')
  if (more.length > 0 || /\s/.test(name.trim())) {
    const search = await import('./search.ts')
    return search.run({ ...args, values: { ...args.values, explain: true } }, io)
  }
  return withApp(
    args,
    io,
    (session) => {
      const verdict = verdictOf({ ...session, caller: callerForOptions(args, session.caller) }, name)
      writeAnswer(args, io, verdict, withTypedCommands(formatVerdict(verdict), args, io))
      return verdict.stage === 'unknown' ? 1 : 0
    },
    { shouldWaitFor: ({ id, module, tools }, { config }) => tools === 0 && mayHave(name, id, module, config) },
  )
}

const formatVerdict = (verdict: Verdict): string =>
  `${verdict.tool} is ${verdict.visible ? 'visible' : verdict.stage === 'unknown' ? 'unknown' : 'hidden'}.\n${formatTable(verdictRows(verdict))}`
