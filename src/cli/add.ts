import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Config } from '../config/load-config.ts'
import { raceAbort } from '../core/abort.ts'
import { systemClock } from '../core/clock.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { firstSentence } from '../core/first-sentence.ts'
import { asRecord } from '../core/is-record.ts'
import { silentLog } from '../core/log.ts'
import { quoteWord } from '../core/quote-word.ts'
import { checkServers } from '../doctor/check-servers.ts'
import { type Finding, fixOf } from '../doctor/findings.ts'
import { isLoopback } from '../policy/network-rules.ts'
import { isMissing, spawnPlan } from '../programs/spawn.ts'
import { additionEdit } from '../setup/add-server.ts'
import { type AddSource, type PackageType, readSource } from '../setup/add-source.ts'
import { diffOf } from '../setup/edit-diff.ts'
import { applyEdits, undo } from '../setup/file-edits.ts'
import {
  type InputValue,
  type InputValues,
  type InstallPlan,
  idOf,
  planPackage,
  type ServerEntry,
} from '../setup/install-plan.ts'
import type { RegistryInput, RegistryServer } from '../setup/registry-server.ts'
import { escapeLine } from '../trust/find-hidden-text.ts'
import { createPlans, describeInput, formatPlans } from './add-plan.ts'
import { type Args, readChoice, readInteger, readList, readOption } from './args.ts'
import { userConfigFile } from './find-config.ts'
import { withTypedCommands } from './invocation.ts'
import { formatTable, type Io, UsageError, writeJson, writeWarning } from './io.ts'
import { machineOf, openSecrets, setupDir } from './machine-of.ts'
import { offline, openApp, openConfig, stopApp } from './open-app.ts'
import { askLine, askYes, canAsk } from './questions.ts'
import { withRegistry } from './registry.ts'

const MAX_SECRET = 16_384

/** What is added, and where it was found. */
interface FoundPlan {
  readonly server?: RegistryServer
  readonly plan: InstallPlan
}

/** `pegboard add <name | URL | npm:package | command …>`. Runs nothing before a person agreed. */
export async function run(args: Args, io: Io): Promise<number> {
  const yes = args.values['yes'] === true
  const isDryRun = args.values['dry-run'] === true
  const json = args.values['json'] === true
  const source = readSource(args.positionals, (word) => !isMissing(word, io.env, io.cwd, process.platform))
  if (!source) throw new UsageError('add takes a name of the registry, a URL, npm:package, or a command')
  if (!yes && !isDryRun && !canAsk(io))
    throw new UsageError(
      'add asks for confirmation, but there is no terminal; pass --yes to add the server without asking, or --dry-run to only show the change',
    )
  const { config } = await openConfig(args, io)
  const file = config.file ?? userConfigFile(machineOf(io))
  const { server, plan } = await findPlan(source, args, io, yes)
  const id = readOption(args, 'name') ?? plan.id
  const print = (text: string): void => (json ? undefined : io.stdout(withTypedCommands(text, args, io)))
  print(formatPlans([plan], server))
  for (const warning of [...plan.warnings, ...missingProgramWarnings(plan, io)]) writeWarning(io, warning)
  if (server?.deprecated !== undefined) writeWarning(io, `${server.name} is deprecated: ${server.deprecated}`)
  const { values, secrets } = await collectValues(plan, id, args, io, yes || isDryRun)
  const entry = await withSandbox(plan.entry(values), args, io, yes || isDryRun)
  const edit = await additionEdit(file, id, entry)
  print(`\n${diffOf([edit], [...secrets.values()])}\n`)
  if (isDryRun) {
    if (json) writeJson(io, { id, file, entry, inputs: plan.inputs, added: false })
    return 0
  }
  if (!yes && !(await askYes(`Add ${escapeLine(id)} to ${file}, and start it?`, io))) {
    io.stderr('Nothing was added.\n')
    return 1
  }
  await storeSecrets(secrets, io)
  const { id: undoId } = await applyEdits([edit], {
    stateDir: setupDir(io),
    clock: systemClock,
    reason: `add ${id}`,
    config: file,
  })
  const onInterrupt = () => undoAddition({ id, undoId, secretNames: [...secrets.keys()] }, args, io)
  const check = await connect({ ...args, values: { ...args.values, config: file } }, io, id, onInterrupt)
  if (json) writeJson(io, { id, file, entry, inputs: plan.inputs, added: true, undo: undoId, ...check })
  else print(connectionText(id, check, undoId))
  return check.findings.some(({ code }) => code !== 'server-unpinned' && code !== 'tools-waiting') ? 1 : 0
}

/** What runs packages, and where it comes from. */
const INSTALL: Readonly<Record<string, string>> = {
  docker: 'Install Docker or Podman',
  uvx: 'Install uv',
  npx: 'Install Node.js with npm',
}

function missingProgramWarnings(plan: InstallPlan, io: Io): readonly string[] {
  const { command } = plan.entry(new Map())
  if (typeof command !== 'string' || !isMissing(command, io.env, io.cwd, process.platform)) return []
  return [`${command} is not on PATH, so this server cannot start here. ${INSTALL[command] ?? 'Install it'} first.`]
}

const SANDBOXES = ['none', 'auto', 'bubblewrap', 'docker'] as const

/** Proposes a sandbox for a local server, which could otherwise read and write all files of the person. */
async function withSandbox(entry: ServerEntry, args: Args, io: Io, silent: boolean): Promise<ServerEntry> {
  const isLocal = entry['command'] !== undefined
  if (readOption(args, 'sandbox') !== undefined) {
    const kind = readChoice(args, 'sandbox', SANDBOXES, 'none')
    if (!isLocal && kind !== 'none') throw new UsageError('--sandbox is for local servers')
    return kind === 'none' ? entry : { ...entry, sandbox: kind }
  }
  // Containers have walls of their own.
  if (!isLocal || entry['command'] === 'docker') return entry
  const hasBubblewrap = process.platform === 'linux' && !isMissing('bwrap', io.env, io.cwd, process.platform)
  if (!hasBubblewrap || silent) {
    io.stderr('It can read and write all your files. To limit it, add --sandbox auto.\n')
    return entry
  }
  const question =
    'It could read and write all your files. Run it in a sandbox, with the network and a folder of its own?'
  return (await askYes(question, io)) ? { ...entry, sandbox: 'auto' } : entry
}

async function findPlan(source: AddSource, args: Args, io: Io, yes: boolean): Promise<FoundPlan> {
  if (source.kind === 'registry' || source.kind === 'word') return await planFromRegistry(source, args, io, yes)
  return { plan: await planSource(source, args, io) }
}

async function planSource(
  source: Exclude<AddSource, { kind: 'registry' | 'word' }>,
  args: Args,
  io: Io,
): Promise<InstallPlan> {
  if (source.kind === 'package') return await planNamedPackage(source, io)
  const variables = variablesOf(args)
  const variableEntries = Object.fromEntries([...variables].map(([name, value]) => [name, value ?? `\${env:${name}}`]))
  const isEmpty = variables.size === 0
  if (source.kind === 'url') {
    const url = new URL(source.url)
    return {
      id: isLoopback(url) ? idOf(`local-${url.port}`) : idOf(url.hostname),
      what: `remote server ${source.url}`,
      inputs: [],
      warnings:
        url.protocol === 'http:'
          ? ['The address has no TLS, so others on the way can read and change everything.']
          : [],
      entry: () => ({ url: source.url, ...(isEmpty ? {} : { headers: variableEntries }) }),
    }
  }
  const { command, args: words } = source
  return {
    id: source.id ?? idOf(words.findLast((word) => !word.startsWith('-')) ?? command),
    what: `command ${command}`,
    inputs: [],
    warnings: [],
    entry: () => ({ command, args: words, ...(isEmpty ? {} : { env: variableEntries }) }),
  }
}

async function planNamedPackage(
  { type, name, version, args }: AddSource & { readonly kind: 'package' },
  io: Io,
): Promise<InstallPlan> {
  const isUnpinned = version === undefined || version === 'latest'
  const pinnedVersion = isUnpinned ? await newestVersion(type, name, io) : version
  return planPackage({
    kind: 'package',
    type,
    identifier: name,
    ...(pinnedVersion === undefined ? {} : { version: pinnedVersion }),
    transport: 'stdio',
    runtimeArguments: [],
    arguments: args.map((text) => ({ text, inputs: [] })),
    variables: [],
  })
}

const VIEW_MS = 30_000

/** npm itself says what is newest, because it knows the registry and the credentials of this machine. */
async function newestVersion(type: PackageType, name: string, io: Io): Promise<string | undefined> {
  if (type !== 'npm' && type !== 'pypi') return undefined
  const hint = `Write the version: ${type}:${name}${type === 'npm' ? '@1.2.3' : '==1.2.3'}`
  if (type !== 'npm') throw new PegboardError('E_REGISTRY_ENTRY', `The version of ${name} is not given.`, { hint })
  if (!/^(?:@[a-z0-9~][\w.~-]*\/)?[a-z0-9~][\w.~-]*$/i.test(name))
    throw new PegboardError(
      'E_REGISTRY_ENTRY',
      `${JSON.stringify(name.slice(0, 80))} is not the name of an npm package.`,
    )
  const plan = spawnPlan('npm', ['view', '--json', name, 'version'], io.env, process.platform)
  try {
    const { stdout } = await promisify(execFile)(plan.file, [...plan.args], {
      env: { ...io.env },
      timeout: VIEW_MS,
      windowsHide: true,
      ...('windowsVerbatimArguments' in plan.options ? { windowsVerbatimArguments: true } : {}),
    })
    const version = JSON.parse(stdout) as unknown
    if (typeof version === 'string') return version
  } catch (error) {
    if (/"code": *"E404"/.test(String(asRecord(error)['stdout'])))
      throw new PegboardError('E_NOT_FOUND', `npm has no package ${name} (HTTP 404).`, {
        hint: 'Correct the name. For a private package, log in to its registry with npm login.',
        cause: error,
      })
    throw new PegboardError('E_REGISTRY_UNAVAILABLE', `npm does not say what the newest version of ${name} is.`, {
      hint,
      cause: error,
    })
  }
  throw new PegboardError('E_REGISTRY_ENTRY', `npm knows no version of ${name}.`, { hint })
}

async function planFromRegistry(
  source: AddSource & { readonly kind: 'registry' | 'word' },
  args: Args,
  io: Io,
  yes: boolean,
): Promise<FoundPlan> {
  return await withRegistry(args, io, async (registry) => {
    if (source.kind === 'word') {
      const hits = await registry.search([source.word], 5)
      throw new PegboardError(
        'E_NOT_FOUND',
        `${JSON.stringify(source.word.slice(0, 80))} is no program on PATH, and no full name of the registry.`,
        {
          hint:
            hits.length === 0
              ? 'Write npm:NAME for a package of npm.'
              : `The registry has ${hits.map(({ name }) => name).join(', ')}.`,
        },
      )
    }
    const server = await registry.server(source.name, source.version)
    const problems: string[] = []
    const plans = createPlans(server, registry.url, (why) => problems.push(why))
    const [first] = plans
    if (!first)
      throw new PegboardError('E_REGISTRY_ENTRY', problems[0] ?? `${server.name} has nothing to run or connect to.`)
    const [, short = ''] = server.name.split('/')
    const plan = plans.length > 1 && !yes && canAsk(io) ? await choose(plans, io) : first
    return { server, plan: { ...plan, id: idOf(short) } }
  })
}

async function choose(plans: readonly InstallPlan[], io: Io): Promise<InstallPlan> {
  io.stderr(`${plans.map(({ what }, index) => `${index + 1}  ${what}\n`).join('')}`)
  const answer = await askLine(`Which one? [1–${plans.length}, default 1] `, io)
  return plans[Number(answer || 1) - 1] ?? (plans[0] as InstallPlan)
}

/** `--env NAME=VALUE`, and `--env NAME` for the variable of that name (undefined). */
function variablesOf(args: Args): ReadonlyMap<string, string | undefined> {
  return new Map(
    (readList(args, 'env') ?? []).map((text) => {
      const [, name, value] = /^([A-Za-z_][\w.-]*)(?:=(.*))?$/s.exec(text) ?? []
      if (name === undefined)
        throw new UsageError(`--env takes NAME=VALUE or NAME, not ${JSON.stringify(text.slice(0, 40))}`)
      return [name, value] as const
    }),
  )
}

/** A person may name a variable or a secret instead of a value. */
const isReference = (value: string): boolean => /^\$\{(?:env|keyring):[A-Za-z_][\w.-]*\}$/.test(value)

interface Values {
  readonly values: InputValues
  /** Secrets to keep, by name. */
  readonly secrets: ReadonlyMap<string, string>
}

/** Values by the names of inputs. A secret goes to the keyring, and the file only names it. */
async function collectValues(plan: InstallPlan, id: string, args: Args, io: Io, silent: boolean): Promise<Values> {
  const variables = variablesOf(args)
  const values = new Map<string, InputValue>()
  const secrets = new Map<string, string>()
  const missing: string[] = []
  const setValue = (input: RegistryInput, value: string): void => {
    if (input.choices && !input.choices.includes(value))
      throw new UsageError(`${input.name} must be one of ${input.choices.join(', ')}`)
    if (!input.secret || isReference(value))
      return void values.set(input.name, { text: value, isReference: isReference(value) })
    const name = `${id}.${input.name}`.replace(/^[^A-Za-z_]/, '_$&').replaceAll(/[^\w.-]/g, '_')
    secrets.set(name, value)
    values.set(input.name, { text: `\${keyring:${name}}`, isReference: true })
  }
  const inputNames = new Set(plan.inputs.map(({ name }) => name))
  const hasNoInputs = plan.inputs.length === 0
  for (const name of variables.keys())
    if (!inputNames.has(name) && !hasNoInputs)
      throw new UsageError(`the server has no input ${name}; inputs: ${[...inputNames].join(', ')}`)
  for (const input of plan.inputs) {
    if (variables.has(input.name)) {
      setValue(input, variables.get(input.name) ?? `\${env:${input.name}}`)
      continue
    }
    const answer = silent ? undefined : await askInput(input, io)
    if (answer) setValue(input, answer)
    else if (input.default !== undefined) values.set(input.name, { text: input.default, isReference: false })
    else if (input.required) missing.push(input.name)
  }
  if (missing.length > 0)
    throw new UsageError(
      `it needs ${missing.join(', ')}; add --env NAME=VALUE, or --env NAME to pass the variable of that name`,
    )
  return { values, secrets }
}

async function askInput(input: RegistryInput, io: Io): Promise<string | undefined> {
  const about = input.description === '' ? '' : `: ${input.description}`
  const prompt = `${input.name} (${describeInput(input)})${about}\n> `
  if (!input.secret) return await askLine(prompt, io)
  const { readHidden } = await import('./read-hidden.ts')
  return (await readHidden(prompt, io, MAX_SECRET)).trim()
}

async function storeSecrets(secrets: ReadonlyMap<string, string>, io: Io): Promise<void> {
  if (secrets.size === 0) return
  const store = await openSecrets(io)
  for (const [name, secret] of secrets) await store.set(name, secret)
}

interface ConnectionCheck {
  readonly findings: readonly Pick<Finding, 'code' | 'message' | 'fix'>[]
  readonly tools: readonly { readonly id: string; readonly effect: string; readonly description: string }[]
  /** Tools that wait for a review, and why. */
  readonly waiting: readonly { readonly id: string; readonly reason: string }[]
}

/** A change that `add` has written. */
interface Addition {
  readonly id: string
  readonly undoId: string
  /** Names of the stored secrets. */
  readonly secretNames: readonly string[]
}

/** Removes the entry of a server whose start was interrupted, and prints what stays. Never rejects. */
async function undoAddition({ id, undoId, secretNames }: Addition, args: Args, io: Io): Promise<void> {
  const print = (text: string): void => io.stderr(withTypedCommands(text, args, io))
  try {
    await undo(setupDir(io), undoId)
    print(secretNames.length === 0 ? 'Nothing was added.\n' : 'No server was added.\n')
  } catch (error) {
    writeWarning(io, `the entry of the server stays in the configuration: ${messageOf(error)}`)
    print(`To remove the entry: pegboard remove ${quoteWord(id)}\n`)
    print(`To restore the old file, without the edits: pegboard undo ${undoId} --force\n`)
  }
  if (secretNames.length > 0)
    print(`The secret store keeps ${secretNames.join(', ')}. To delete a secret: pegboard secret rm NAME\n`)
}

/**
 * Starts the new server once, and reads its tools. Rejects with the reason of `io.stop` if a signal arrives meanwhile.
 * @param onInterrupt called before the server is stopped, because a second signal ends the process immediately
 */
async function connect(args: Args, io: Io, id: string, onInterrupt: () => Promise<void>): Promise<ConnectionCheck> {
  const { config } = await openConfig(args, io)
  const skipped = config.skipped.find((server) => server.id === id)
  if (skipped)
    return { findings: [{ code: 'server-entry-invalid', message: `${skipped.reason}.` }], tools: [], waiting: [] }
  const findings: Finding[] = []
  const app = await openApp(onlyServer(config, id), silentLog, io, offline)
  try {
    await app.start()
    if (args.values['json'] !== true) io.stderr(`Starting ${id} …\n`)
    const checks = {
      ...{ app, config, env: io.env, home: io.env['HOME'] ?? '', clock: systemClock },
      timeoutMs: readInteger(args, 'timeout', 1, 600, 120) * 1_000,
      downloadMs: 0,
      report: {
        found: (finding: Finding) => findings.push(finding),
        passed: () => undefined,
        waiting: () => undefined,
      },
    }
    await raceAbort(checkServers(checks, [id]), io.stop)
    const module = app.upstreams.status().find((server) => server.id === id)?.module ?? ''
    const owner = app.catalog.snapshot().owners.get(module)
    return {
      findings: findings.map((finding) => ({ code: finding.code, message: finding.message, fix: fixOf(finding) })),
      tools: (owner?.tools ?? []).map(({ id, effect, description }) => ({ id, effect, description })),
      waiting: (owner?.quarantined ?? []).map(({ tool, reason }) => ({ id: tool.id, reason })),
    }
  } catch (error) {
    if (io.stop.aborted) {
      await onInterrupt()
      throw io.stop.reason
    }
    return { findings: [{ code: 'server-failed', message: messageOf(error) }], tools: [], waiting: [] }
  } finally {
    await stopApp(app, io)
  }
}

/** Other servers are not started for it. */
const onlyServer = (config: Config, id: string): Config => ({
  ...config,
  servers: Object.fromEntries(Object.entries(config.servers).filter(([serverId]) => serverId === id)),
})

function connectionText(id: string, { findings, tools, waiting }: ConnectionCheck, undo: string): string {
  const rows = tools.map(({ id, effect, description }) => [id, effect, escapeLine(firstSentence(description, 100))])
  const waitingRows = waiting.map(({ id, reason }) => [id, 'waits', escapeLine(reason)])
  return [
    `Added ${escapeLine(id)}. To undo: pegboard undo ${undo}\n`,
    ...findings.flatMap(({ code, message, fix }) =>
      code === 'tools-waiting' ? [] : [`  ${escapeLine(message)} ${fix ?? ''}\n`],
    ),
    rows.length + waitingRows.length === 0 ? '' : `\n${formatTable([...rows, ...waitingRows])}`,
    waiting.length === 0 ? '' : `\nTo see why tools wait, and to approve them: pegboard review ${quoteWord(id)}\n`,
  ].join('')
}
