import { type Args, readOption } from './args.ts'
import { mayHave } from './call.ts'
import { type Verdict, verdictOf } from './explain-tool.ts'
import { toTypedCommands } from './invocation.ts'
import { formatTable, type Io, UsageError, writeJson } from './io.ts'
import { withApp } from './open-app.ts'

/** `pegboard why <tool>` and `pegboard why "<query>"`. Exit code 1 if the tool is unknown. */
export async function run(args: Args, io: Io): Promise<number> {
  const [name, ...more] = args.positionals
  if (name === undefined) throw new UsageError('why needs the name of a tool, or a query of several words')
  if (more.length > 0 || /\s/.test(name.trim())) {
    const search = await import('./search.ts')
    return search.run({ ...args, values: { ...args.values, explain: true } }, io)
  }
  const message = readOption(args, 'message')
  return withApp(
    args,
    io,
    (session) => {
      const caller = message === undefined ? session.caller : { ...session.caller, turn: { message } }
      const verdict = verdictOf({ ...session, caller }, name)
      if (args.values['json'] === true) writeJson(io, verdict)
      else io.stdout(toTypedCommands(verdictText(verdict), readOption(args, 'config'), io))
      return verdict.stage === 'unknown' ? 1 : 0
    },
    { awaited: ({ id, module, tools }, { config }) => tools === 0 && mayHave(name, id, module, config) },
  )
}

function verdictText(verdict: Verdict): string {
  const { tool, profile, visible, stage, rule, passed, server, names, listed, listing, searchText } = verdict
  const rows = [
    ['Profile', profile],
    ...(stage === undefined ? [] : [[stage === 'unknown' ? 'Unknown' : `Stage ${stage}`, rule ?? '']]),
    ...(passed && passed.length > 0 ? [['Passed', passed.join(', ')]] : []),
    ...(verdict.setting === undefined ? [] : [['Setting', verdict.setting]]),
    ...(verdict.hint === undefined ? [] : [['To do', verdict.hint]]),
    ...(verdict.refusal === undefined ? [] : [['Clients get', verdict.refusal]]),
    ...(names === undefined ? [] : [['Called as', names.join(', ')]]),
    ...(listed === undefined ? [] : [['Listed', `${listed ? 'yes' : 'no'}: ${listing}`]]),
    ...(verdict.only === undefined ? [] : [['Only', verdict.only]]),
    ...(verdict.calls === undefined ? [] : [['Calls', verdict.calls.join('; ')]]),
    ...(searchText === undefined
      ? []
      : [
          ['Found by', `${[searchText.when, ...searchText.requests].filter(Boolean).join(' · ')} (written by a model)`],
        ]),
    ...(server === undefined
      ? []
      : [['Server', `${server.id} is ${server.state}${server.reason ? `: ${server.reason}` : ''}`]]),
    ...(verdict.nearest && verdict.nearest.length > 0 ? [['Perhaps', verdict.nearest.join(', ')]] : []),
  ]
  return `${tool} is ${visible ? 'visible' : stage === 'unknown' ? 'not known' : 'hidden'}.\n${formatTable(rows)}`
}
