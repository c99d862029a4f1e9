import { useState } from 'preact/hooks'
import type { CallRow, TryAnswer } from '../../../src/ui/api-types.ts'
import { post } from '../api.ts'
import { Drawer } from '../parts/drawer.tsx'
import { Facts } from '../parts/facts.tsx'
import { count, date, duration, size, time } from '../parts/format.ts'
import { Outcome } from '../parts/outcome.tsx'
import { Empty, State } from '../parts/status.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { attempt, calls } from '../state.ts'

const columns: readonly Column<CallRow>[] = [
  { id: 'tool', title: 'Tool', width: 'minmax(14rem, 1.5fr)', cell: ({ tool }) => tool },
  { id: 'time', title: 'Time', width: '7rem', cell: ({ at }) => time(at) },
  {
    id: 'client',
    title: 'Client',
    width: 'minmax(8rem, 1fr)',
    cell: ({ client, principal }) => `${client || 'unknown'} (${principal})`,
  },
  { id: 'ms', title: 'Took', width: '6rem', end: true, cell: ({ ms }) => duration(ms), sort: (a, b) => a.ms - b.ms },
  {
    id: 'tokens',
    title: 'Tokens',
    width: '6rem',
    end: true,
    cell: ({ tokens }) => (tokens === undefined ? '' : count(tokens)),
    sort: (a, b) => (a.tokens ?? 0) - (b.tokens ?? 0),
  },
  { id: 'outcome', title: 'Outcome', width: 'minmax(10rem, 1fr)', cell: ({ outcome }) => <State value={outcome} /> },
]

export function Calls() {
  const [text, setText] = useState('')
  const [only, setOnly] = useState('')
  const [held, setHeld] = useState<readonly CallRow[] | undefined>()
  const [opened, setOpened] = useState<CallRow | undefined>(undefined)
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  const all = held ?? calls.value
  const rows = all
    .filter(({ tool, client, principal, outcome }) => {
      if (only === 'failed' && (outcome === 'ok' || outcome === 'input_required')) return false
      const row = `${tool} ${client} ${principal} ${outcome}`.toLowerCase()
      return words.every((word) => row.includes(word))
    })
    .reverse()
  return (
    <>
      <search class="filters">
        <label class="grow">
          <span class="unseen">Filter calls by tool, client or outcome</span>
          <input
            type="search"
            placeholder="Filter by tool, client or outcome"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <label>
          <span class="unseen">Outcome</span>
          <select value={only} onChange={(event) => setOnly(event.currentTarget.value)}>
            <option value="">All outcomes</option>
            <option value="failed">Failed</option>
          </select>
        </label>
        <button type="button" aria-pressed={held !== undefined} onClick={() => setHeld(held ? undefined : calls.value)}>
          {held ? 'Continue' : 'Pause'}
        </button>
        <p class="total">{count(rows.length)} calls</p>
      </search>
      {rows.length === 0 ? (
        <Empty title={all.length === 0 ? 'No calls yet' : 'No call matches'}>
          <p>
            {all.length === 0
              ? 'Calls appear here as soon as a client makes them.'
              : 'Change the filter to see other calls.'}
          </p>
        </Empty>
      ) : (
        <Table label="Calls" rows={rows} columns={columns} keyOf={({ id }) => id} open={(row) => setOpened(row)} />
      )}
      {opened && <Detail key={opened.id} call={opened} onClose={() => setOpened(undefined)} />}
    </>
  )
}

function Detail({ call, onClose }: { readonly call: CallRow; onClose(): void }) {
  const [answer, setAnswer] = useState<TryAnswer | undefined>()
  const [busy, setBusy] = useState(false)
  async function replay(): Promise<void> {
    setBusy(true)
    setAnswer(await attempt(() => post<TryAnswer>('replay', { id: call.id })))
    setBusy(false)
  }
  return (
    <Drawer title={call.tool} onClose={onClose}>
      <p>
        <State value={call.outcome} />
      </p>
      <Facts
        rows={[
          ['Time', date(call.at)],
          ['Client', `${call.client || 'unknown'}, for ${call.principal} in profile ${call.profile}`],
          ['Took', duration(call.ms)],
          ['Result', call.bytes !== undefined && `${size(call.bytes)}, about ${count(call.tokens ?? 0)} tokens`],
          ['Error', call.error],
          ['To do', call.hint],
          ['Place', call.place],
          ['Call', call.id],
        ]}
      />
      <div class="actions">
        <button type="button" disabled={busy || !call.replayable} onClick={() => void replay()}>
          {busy ? 'Running…' : 'Run it again as you'}
        </button>
        <a class="button" href={`#/tools?tool=${encodeURIComponent(call.tool)}`}>
          Open the tool
        </a>
      </div>
      <p class="hint">
        {call.replayable
          ? 'The same arguments, with your rights. They are kept in memory for 15 minutes and are never shown or written to disk.'
          : 'Its arguments are too large or no longer in memory.'}
      </p>
      {answer && <Outcome answer={answer} />}
    </Drawer>
  )
}
