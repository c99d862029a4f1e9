import { PegboardError } from '../core/errors.ts'
import { SECRET_NAME, type SecretPlace, type SecretStore } from '../state/secret-store.ts'
import { type Args, writeAnswer } from './args.ts'
import { withTypedCommands } from './invocation.ts'
import { formatTable, type Io, UsageError } from './io.ts'
import { openSecrets } from './machine-of.ts'
import { readHidden } from './read-hidden.ts'

const MAX_CHARS = 64 * 1024

/** `pegboard secret`: secrets for `${keyring:NAME}` in the configuration. No command prints one. */
export async function run(args: Args, io: Io): Promise<number> {
  const [action = 'list', name, ...more] = args.positionals
  // The words that are too many may be a secret, so they are not repeated.
  if (!['set', 'list', 'rm'].includes(action) || more.length > 0 || (action === 'list') !== (name === undefined))
    throw new UsageError(
      'secret takes set <name>, list or rm <name>. Type or pipe the value: it does not belong on the command line',
    )
  const store = await openSecrets(io)
  if (name === undefined) return await listSecrets(args, io, store)
  if (!SECRET_NAME.test(name))
    throw new UsageError('the name of a secret has letters, digits, "_", "." and "-", and starts with a letter or "_"')
  return action === 'set' ? await setSecret(args, io, store, name) : await removeSecret(args, io, store, name)
}

async function setSecret(args: Args, io: Io, store: SecretStore, name: string): Promise<number> {
  const secret = await readHidden(`Value of ${name} (not shown): `, io, MAX_CHARS)
  if (secret === '') throw new UsageError(`no value was given for ${name}`)
  if (secret.length > MAX_CHARS || secret.includes('\0'))
    throw new UsageError(`the value must be text of at most ${MAX_CHARS / 1024} KiB`)
  io.onSecrets?.([secret])
  const place = await store.set(name, secret)
  const text = `${name} is stored in ${describePlace(place)}. Use it as \${keyring:${name}}.\n`
  writeAnswer(args, io, { name, place }, text)
  return 0
}

async function removeSecret(args: Args, io: Io, store: SecretStore, name: string): Promise<number> {
  if (!(await store.delete(name)))
    throw new PegboardError('E_NOT_FOUND', `There is no secret ${name}.`, { hint: 'See pegboard secret list.' })
  writeAnswer(args, io, { name, removed: true }, `${name} is removed.\n`)
  return 0
}

async function listSecrets(args: Args, io: Io, store: SecretStore): Promise<number> {
  const secrets = await store.list()
  const rows = secrets.map(({ name, place }) => [name, describePlace(place)])
  const text =
    rows.length === 0
      ? withTypedCommands('No secrets. Store one with pegboard secret set <name>.\n', args, io)
      : formatTable(rows)
  writeAnswer(args, io, { secrets }, text)
  return 0
}

export const describePlace = (place: SecretPlace): string =>
  place === 'keyring' ? 'the keyring of this system' : 'a file only you can read'
