import { randomBytes } from 'node:crypto'
import type { Clock } from '../core/clock.ts'
import { PegboardError } from '../core/errors.ts'
import type { Kv, Place, Strand, Threadweave } from '../core/service-types.ts'

const VAULT = 'vault'
const WOVEN = 'woven'
const SHADOW = 'shadow:'
const MAX_STRANDS = 500
const MAX_WOVEN = 5_000
const MAX_TITLE = 200
const MAX_CONTENT = 8_000
/** Maximum number of titles listed for an admin who asks for an unknown one. */
const MAX_LISTED = 20

interface Thread extends Place {
  readonly strand: string
}

export interface ThreadweaveUser {
  readonly isAdmin: boolean
  readonly userId: string
  readonly clock: Clock
}

/** A vault of texts, and threads that show them in channels. */
export function createThreadweave(kv: Kv, { isAdmin, userId, clock }: ThreadweaveUser): Threadweave {
  const strandsIn = (value: unknown): readonly Strand[] => (value ?? []) as readonly Strand[]
  const threadsIn = (value: unknown): readonly Thread[] => (value ?? []) as readonly Thread[]
  const isCalled =
    (idOrTitle: string) =>
    ({ id, title }: Strand): boolean =>
      id === idOrTitle || title.toLowerCase() === idOrTitle.trim().toLowerCase()
  const admins = (what: string): void => {
    if (!isAdmin)
      throw new PegboardError('E_DENIED_BY_POLICY', `Only admins ${what}.`, {
        hint: 'The operator sets the flag "admin" of the profile.',
      })
  }
  const strand = async (idOrTitle: string): Promise<Strand> => {
    const all = strandsIn(await kv.get(VAULT))
    const found = all.find(isCalled(idOrTitle))
    if (found) return found
    const newest = all.slice(-MAX_LISTED).map(({ title }) => title)
    throw new PegboardError('E_NOT_FOUND', `There is no strand "${idOrTitle.slice(0, 80)}" in the vault.`, {
      hint: newest.length === 0 ? 'vault_dna keeps one.' : `The vault has: ${newest.join(', ')}.`,
    })
  }
  const isAt =
    ({ scope, id }: Place) =>
    (thread: Thread): boolean =>
      thread.scope === scope && thread.id === id

  return {
    async vaultDna(title, content) {
      admins('write into the vault')
      const name = title.trim().slice(0, MAX_TITLE)
      if (name === '' || content.trim() === '')
        throw new PegboardError('E_VALIDATION', 'A strand needs a title and a content.')
      if (content.length > MAX_CONTENT)
        throw new PegboardError('E_TOO_LARGE', `A strand has at most ${MAX_CONTENT} characters.`)
      return await kv.update(VAULT, (value) => {
        const all = strandsIn(value)
        const at = all.findIndex(isCalled(name))
        const id = all[at]?.id ?? randomBytes(6).toString('hex')
        const newStrand: Strand = { id, title: name, content, at: clock.now() }
        if (at === -1 && all.length >= MAX_STRANDS)
          throw new PegboardError('E_TOO_LARGE', `The vault has ${MAX_STRANDS} strands, which is the limit.`)
        return { value: at === -1 ? [...all, newStrand] : all.with(at, newStrand), result: newStrand }
      })
    },
    async readDna(places, idOrTitle) {
      const all = strandsIn(await kv.get(VAULT))
      const found = idOrTitle === undefined ? all : all.filter(isCalled(idOrTitle))
      const threads = threadsIn(await kv.get(WOVEN)).filter((thread) => places.some((place) => isAt(place)(thread)))
      const seen = new Set(threads.map((thread) => thread.strand))
      return found.filter(({ id }) => seen.has(id))
    },
    async weave(idOrTitle, place) {
      admins('weave')
      const { id } = await strand(idOrTitle)
      return await kv.update(WOVEN, (value) => {
        const all = threadsIn(value)
        if (all.some((thread) => thread.strand === id && isAt(place)(thread))) return { result: false }
        if (all.length >= MAX_WOVEN)
          throw new PegboardError('E_TOO_LARGE', `${MAX_WOVEN} threads are woven, which is the limit.`)
        return { value: [...all, { ...place, strand: id }], result: true }
      })
    },
    async unweave(idOrTitle, place) {
      admins('unweave')
      const { id } = await strand(idOrTitle)
      return await kv.update(WOVEN, (value) => {
        const all = threadsIn(value)
        const left = all.filter((thread) => thread.strand !== id || !isAt(place)(thread))
        return left.length === all.length ? { result: false } : { value: left, result: true }
      })
    },
    async shadowGet(user) {
      if (user !== userId) admins('read notes on others')
      return ((await kv.get(SHADOW + user)) as string | null) ?? null
    },
    async shadowSet(user, content) {
      admins('write notes on users')
      if (user === '') throw new PegboardError('E_VALIDATION', 'Notes need the id of a user.')
      if (content.length > MAX_CONTENT)
        throw new PegboardError('E_TOO_LARGE', `Notes have at most ${MAX_CONTENT} characters.`)
      if (content === '') await kv.del(SHADOW + user)
      else await kv.set(SHADOW + user, content)
    },
  }
}
