import type { ComponentType } from 'preact'
import { useEffect } from 'preact/hooks'
import { Calls } from './panels/calls.tsx'
import { Clients } from './panels/clients.tsx'
import { Later } from './panels/later.tsx'
import { Misses } from './panels/misses.tsx'
import { Review } from './panels/review.tsx'
import { Search } from './panels/search.tsx'
import { Servers } from './panels/servers.tsx'
import { SignIn } from './panels/sign-in.tsx'
import { Tools } from './panels/tools.tsx'
import { count, percent } from './parts/format.ts'
import { Loading } from './parts/status.tsx'
import { access, dismiss, notices, overview, panel, signOut, streamState, type Theme, theme } from './state.ts'

interface Panel {
  readonly id: string
  readonly title: string
  readonly about: string
  readonly view: ComponentType
  badge?(): number
}

const panels: readonly Panel[] = [
  {
    id: 'servers',
    title: 'Servers',
    about: 'Where the tools come from, whether they work, and what they cost.',
    view: Servers,
    badge: () => overview.value?.failing ?? 0,
  },
  { id: 'tools', title: 'Tools', about: 'Every tool, also those that clients do not see.', view: Tools },
  { id: 'search', title: 'Search', about: 'Ask as a model would, and see why each tool is found.', view: Search },
  {
    id: 'calls',
    title: 'Calls',
    about: 'What clients call, as it happens. Arguments stay in memory for 15 minutes and are never written to disk.',
    view: Calls,
  },
  {
    id: 'review',
    title: 'Review',
    about: 'Tools that are new, changed or blocked. Clients do not see them before you approve them.',
    view: Review,
    badge: () => overview.value?.toReview ?? 0,
  },
  {
    id: 'clients',
    title: 'Clients',
    about: 'Who is connected, what each one is shown, and the bearer tokens that give access.',
    view: Clients,
  },
  {
    id: 'misses',
    title: 'Misses',
    about: 'Queries that search answered badly, and other words that would help. Pegboard measures each one.',
    view: Misses,
  },
  { id: 'later', title: 'Later', about: 'Background tasks, watchers and schedules of all users.', view: Later },
]

export function App() {
  if (access.value === 'checking') return <Loading what="Pegboard" />
  if (access.value === 'signed-out') return <SignIn />
  const current = panels.find(({ id }) => id === panel.value) ?? (panels[0] as Panel)
  return <SignedInPage current={current} />
}

function SignedInPage({ current }: { readonly current: Panel }) {
  useEffect(() => {
    document.title = `${current.title} · Pegboard`
  }, [current])
  const View = current.view
  return (
    <div class="frame">
      <header class="bar">
        <a class="skip" href={`#/${current.id}`} onClick={(event) => skip(event)}>
          Skip to the content
        </a>
        <a class="brand" href="#/servers">
          <span class="mark" aria-hidden="true" />
          Pegboard
        </a>
        <Figures />
        <div class="bar-end">
          <label class="theme">
            <span class="unseen">Colours</span>
            <select
              value={theme.value}
              onChange={(event) => {
                theme.value = event.currentTarget.value as Theme
              }}
            >
              <option value="system">System</option>
              <option value="light">Light</option>
              <option value="dark">Dark</option>
            </select>
          </label>
          <button type="button" class="quiet" onClick={() => void signOut()}>
            Sign out
          </button>
        </div>
      </header>
      <nav class="panels" aria-label="Panels">
        <ul>
          {panels.map(({ id, title, badge }) => {
            const number = badge?.() ?? 0
            return (
              <li key={id}>
                <a href={`#/${id}`} aria-current={id === current.id ? 'page' : undefined}>
                  {title}
                  {number > 0 && (
                    <span class="count" title={id === 'servers' ? 'failing' : 'waiting'}>
                      {number}
                      <span class="unseen">{id === 'servers' ? ' failing' : ' waiting'}</span>
                    </span>
                  )}
                </a>
              </li>
            )
          })}
        </ul>
      </nav>
      <main id="content" tabIndex={-1}>
        <div class="title">
          <h1>{current.title}</h1>
          <p>{current.about}</p>
        </div>
        <View />
      </main>
      <div class="notices" role="status" aria-live="polite">
        {notices.value.map(({ id, kind, text, hint }) => (
          <div key={id} class={`notice ${kind}`}>
            <p>
              {text}
              {hint && <span class="hint"> {hint}</span>}
            </p>
            <button type="button" class="quiet" aria-label="Dismiss" onClick={() => dismiss(id)}>
              ×
            </button>
          </div>
        ))}
      </div>
    </div>
  )
}

function skip(event: Event): void {
  event.preventDefault()
  document.getElementById('content')?.focus()
}

/** What matters at a glance. */
function Figures() {
  const now = overview.value
  if (streamState.value === 'lost')
    return (
      <p class="figures lost" role="status">
        The connection to Pegboard is lost. Trying again…
      </p>
    )
  if (!now) return <p class="figures">Connecting…</p>
  const { spent } = now
  return (
    <dl class="figures">
      <div>
        <dt>Tools</dt>
        <dd>{count(now.tools)}</dd>
      </div>
      <div title={now.why}>
        <dt>Listed to a client</dt>
        <dd>{count(now.listed)} tokens</dd>
      </div>
      {spent && spent.direct > spent.tokens && (
        <div title={`${count(spent.tokens)} tokens since the start, ${count(spent.direct)} without Pegboard`}>
          <dt>Saved</dt>
          <dd>{percent(1 - spent.tokens / spent.direct)}</dd>
        </div>
      )}
      <div>
        <dt>Calls a minute</dt>
        <dd>{count(now.calls.lastMinute)}</dd>
      </div>
      <div>
        <dt>Clients</dt>
        <dd>{count(now.clients)}</dd>
      </div>
    </dl>
  )
}
