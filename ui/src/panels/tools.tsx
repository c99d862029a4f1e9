import { useState } from 'preact/hooks'
import type { ToolDetail, ToolRow, TryAnswer } from '../../../src/ui/api-types.ts'
import { get, post } from '../api.ts'
import { Drawer } from '../parts/drawer.tsx'
import { Facts } from '../parts/facts.tsx'
import { count, plural } from '../parts/format.ts'
import { Log } from '../parts/log.tsx'
import { Outcome } from '../parts/outcome.tsx'
import { ProfileChoice } from '../parts/profile-choice.tsx'
import { SchemaForm } from '../parts/schema-form.tsx'
import { Empty, Loading, State } from '../parts/status.tsx'
import { SwitchButton } from '../parts/switch-button.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { useFetched } from '../parts/use-fetched.ts'
import { attempt, profile, routeQuery, version } from '../state.ts'

const columns: readonly Column<ToolRow>[] = [
  {
    id: 'name',
    title: 'Name',
    width: 'minmax(14rem, 1.2fr)',
    cell: ({ id }) => id,
    sort: (a, b) => a.id.localeCompare(b.id),
  },
  {
    id: 'effect',
    title: 'Effect',
    width: '8.5rem',
    cell: ({ effect }) => <State value={effect} />,
    sort: (a, b) => EFFECTS.indexOf(a.effect) - EFFECTS.indexOf(b.effect),
  },
  {
    id: 'tokens',
    title: 'Tokens',
    width: '6rem',
    end: true,
    cell: ({ tokens }) => (tokens > 0 ? count(tokens) : ''),
    sort: (a, b) => a.tokens - b.tokens,
  },
  {
    id: 'about',
    title: 'About',
    width: 'minmax(14rem, 2fr)',
    cell: ({ hidden, summary }) => (hidden === undefined ? summary : <span class="reason">Hidden: {hidden}</span>),
  },
]
const EFFECTS = ['read', 'write', 'destructive'] as const

interface Wanted {
  readonly text: string
  readonly owner: string
  readonly effect: string
  readonly shown: string
}

function matches({ id, summary, owner, effect, hidden }: ToolRow, words: readonly string[], wanted: Wanted): boolean {
  if (wanted.owner !== '' && owner !== wanted.owner) return false
  if (wanted.effect !== '' && effect !== wanted.effect) return false
  if (wanted.shown === 'visible' && hidden !== undefined) return false
  if (wanted.shown === 'hidden' && hidden === undefined) return false
  if (words.length === 0) return true
  const text = `${id} ${summary}`.toLowerCase()
  return words.every((word) => text.includes(word))
}

export function Tools() {
  const [list] = useFetched(
    () => get<{ readonly tools: readonly ToolRow[] }>('tools', { profile: profile.value }),
    [version.value, profile.value],
  )
  const [wanted, setWanted] = useState<Wanted>({
    text: '',
    owner: routeQuery.value.get('owner') ?? '',
    effect: '',
    shown: '',
  })
  const [opened, setOpened] = useState<string | undefined>(routeQuery.value.get('tool') ?? undefined)
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  if (!list) return <Loading what="tools" />
  const { tools } = list
  const words = wanted.text.toLowerCase().split(/\s+/).filter(Boolean)
  const rows = tools.filter((row) => matches(row, words, wanted))
  const ownersOf = [...new Set(tools.map(({ owner }) => owner))].sort()
  const set = (change: Partial<Wanted>): void => setWanted({ ...wanted, ...change })
  return (
    <>
      <search class="filters">
        <label class="grow">
          <span class="unseen">Filter by name or description</span>
          <input
            type="search"
            placeholder="Filter by name or description"
            value={wanted.text}
            onInput={(event) => set({ text: event.currentTarget.value })}
          />
        </label>
        <label>
          <span class="unseen">Server or module</span>
          <select value={wanted.owner} onChange={(event) => set({ owner: event.currentTarget.value })}>
            <option value="">All servers and modules</option>
            {ownersOf.map((id) => (
              <option key={id} value={id}>
                {id}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span class="unseen">Effect</span>
          <select value={wanted.effect} onChange={(event) => set({ effect: event.currentTarget.value })}>
            <option value="">Any effect</option>
            {EFFECTS.map((effect) => (
              <option key={effect} value={effect}>
                {effect}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span class="unseen">Visibility</span>
          <select value={wanted.shown} onChange={(event) => set({ shown: event.currentTarget.value })}>
            <option value="">Visible and hidden</option>
            <option value="visible">Visible</option>
            <option value="hidden">Hidden</option>
          </select>
        </label>
        <ProfileChoice />
        {selected.size > 0 && (
          <>
            <SwitchButton names={[...selected]} to="disabled" />
            <SwitchButton names={[...selected]} to="enabled" />
          </>
        )}
        <p class="total" role="status">
          {rows.length === tools.length
            ? plural(tools.length, 'tool')
            : `${count(rows.length)} of ${plural(tools.length, 'tool')}`}
        </p>
      </search>
      {rows.length === 0 ? (
        <Empty title={tools.length === 0 ? 'No tools yet' : 'No tool matches'}>
          {tools.length === 0 ? (
            <p>
              Pegboard has read no server and no module. See <a href="#/servers">Servers</a>.
            </p>
          ) : (
            <button type="button" onClick={() => setWanted({ text: '', owner: '', effect: '', shown: '' })}>
              Remove the filters
            </button>
          )}
        </Empty>
      ) : (
        <Table
          label="Tools"
          rows={rows}
          columns={columns}
          keyOf={({ id }) => id}
          open={({ id }) => setOpened(id)}
          selected={selected}
          onSelect={setSelected}
          rowClass={({ hidden }) => (hidden === undefined ? '' : 'muted')}
        />
      )}
      {opened !== undefined && <Detail key={opened} id={opened} onClose={() => setOpened(undefined)} />}
    </>
  )
}

function Detail({ id, onClose }: { readonly id: string; onClose(): void }) {
  const [tool] = useFetched(() => get<ToolDetail>('tool', { id, profile: profile.value }), [id, version.value])
  const [answer, setAnswer] = useState<TryAnswer | undefined>()
  const [busy, setBusy] = useState(false)
  async function run(input: unknown): Promise<void> {
    setBusy(true)
    setAnswer(undefined)
    setAnswer(await attempt(() => post<TryAnswer>('try', { id, input }, { profile: profile.value })))
    setBusy(false)
  }
  return (
    <Drawer title={id} onClose={onClose}>
      {!tool ? (
        <Loading what="the tool" />
      ) : (
        <>
          <p>
            <State value={tool.effect} />{' '}
            {tool.visible
              ? `Clients call it ${tool.name}. Its definition costs ${count(tool.tokens)} tokens.`
              : 'Clients do not see it.'}
          </p>
          <p class="text">{tool.description}</p>
          <div class="actions">
            <SwitchButton names={[id]} to={tool.visible ? 'disabled' : 'enabled'} />
          </div>
          <section>
            <h3>Why it is {tool.visible ? 'visible' : 'hidden'}</h3>
            <Facts rows={tool.why} />
            <p class="hint">
              The same in a terminal: <code>pegboard why {id}</code>
            </p>
          </section>
          {tool.visible && (
            <section>
              <h3>Try it</h3>
              <SchemaForm
                schema={tool.schema}
                busy={busy}
                dangerous={tool.effect === 'destructive'}
                onRun={(input) => void run(input)}
              />
            </section>
          )}
          {answer && <Outcome answer={answer} />}
          <details>
            <summary>Schema</summary>
            <Log text={JSON.stringify(tool.schema, null, 2)} />
          </details>
        </>
      )}
    </Drawer>
  )
}
