import { type StateFiles, stateFiles } from '../_state-files.ts'
import { SETTING } from './config.ts'
import { FILES, type Item, itemsOf, type Kind, type List, parseList, printList } from './format.ts'

export interface Lists {
  readonly wip: List
  readonly done: List
}

export interface Counts {
  readonly open_count: number
  readonly done_count: number
}

export const countsOf = ({ wip, done }: Lists): Counts => ({
  open_count: itemsOf(wip).length,
  done_count: itemsOf(done).length,
})

/** Access to `TODO.md` and `TODO.DONE.md`, which people and agents may edit too. */
export function createStore(dir: string, now: () => Date) {
  const files: StateFiles = stateFiles(dir, '.todo.lock', SETTING)
  const read = async (kind: Kind): Promise<List> => parseList(await files.read(FILES[kind]), kind)
  const lists = async (): Promise<Lists> => ({ wip: await read('wip'), done: await read('done') })

  return {
    lists,
    /**
     * Changes both files or none, based on their current content. Finished entries are written first, so that an
     * interruption may duplicate an entry but never loses one.
     */
    change: <T extends Partial<Lists>>(apply: (before: Lists) => T): Promise<T & { readonly counts: Counts }> =>
      files.alone(async () => {
        const before = await lists()
        const changed = apply(before)
        const changedAt = now()
          .toISOString()
          .replace(/\.\d+Z$/, 'Z')
        if (changed.done) await files.write(FILES.done, printList(changed.done, changedAt))
        if (changed.wip) await files.write(FILES.wip, printList(changed.wip, changedAt))
        return { ...changed, counts: countsOf({ ...before, ...changed }) }
      }),
  }
}

/** `2026-01-02 03:04`, UTC. */
export const minuteOf = (date: Date): string => date.toISOString().slice(0, 16).replace('T', ' ')

export const textsOf = (items: readonly Item[]): readonly string[] => items.map(({ content }) => content)
