import { isPegboardError } from '../core/errors.ts'
import { isLoopback } from '../policy/network-rules.ts'
import { type InstallPlan, planPackage, planRemote } from '../setup/install-plan.ts'
import type { RegistryInput, RegistryServer } from '../setup/registry-server.ts'
import { formatTable } from './io.ts'

/**
 * The ways to run an entry of the registry, those first that need no network.
 * @param onSkipped called with the reason why another way cannot be used
 */
export function createPlans(
  server: RegistryServer,
  registry: string,
  onSkipped: (why: string) => void,
): readonly InstallPlan[] {
  // A registry on this machine is for development, and its servers are here, too.
  const allowPrivate = isLoopback(new URL(registry))
  const plans: InstallPlan[] = []
  for (const option of server.options) {
    try {
      plans.push(option.kind === 'package' ? planPackage(option) : planRemote(option, allowPrivate))
    } catch (error) {
      if (!isPegboardError(error) || error.code !== 'E_REGISTRY_ENTRY') throw error
      onSkipped(`${server.name}: ${error.message}`)
    }
  }
  return plans
}

/** What a person reads before anything runs. */
export function formatPlans(
  plans: readonly InstallPlan[],
  server?: RegistryServer,
  versions: readonly string[] = [],
): string {
  const head = server
    ? formatTable([
        ['Server', `${server.name} ${server.version}${server.title === undefined ? '' : ` (${server.title})`}`],
        ['It says', server.description],
        ...(server.repository === undefined ? [] : [['Repository', server.repository]]),
        ...(server.deprecated === undefined ? [] : [['Deprecated', server.deprecated]]),
        ...(versions.length > 1 ? [['Versions', versions.slice(0, 10).join(', ')]] : []),
      ])
    : ''
  const empty = plans.length === 0 ? 'Pegboard can run none of its packages.\n' : ''
  return `${head}${empty}${plans.map(formatPlan).join('')}`
}

function formatPlan(plan: InstallPlan): string {
  const entry = plan.entry(new Map(plan.inputs.map(({ name }) => [name, { text: `<${name}>`, isReference: false }])))
  const runs =
    entry['command'] === undefined
      ? [['Connects to', String(entry['url'])]]
      : [['Runs', [entry['command'], ...(entry['args'] as readonly string[])].join(' ')]]
  const headers = Object.entries((entry['headers'] as Record<string, string> | undefined) ?? {})
  return [
    '\n',
    formatTable([
      [plan.what.startsWith('remote') ? 'Remote' : 'Package', plan.what.replace(/^remote server /, '')],
      ...runs,
      ...headers.map(([name, value]) => ['Sends', `${name}: ${value}`]),
    ]),
    plan.inputs.length === 0
      ? ''
      : `Wants\n${formatTable(plan.inputs.map((input) => ['', input.name, describeInput(input), input.description]))}`,
  ].join('')
}

export const describeInput = ({ required, secret, default: fallback, choices }: RegistryInput): string =>
  [
    required ? 'required' : 'optional',
    ...(secret ? ['secret'] : []),
    ...(choices ? [`one of ${choices.join(', ')}`] : []),
    ...(fallback === undefined || secret ? [] : [`default ${fallback}`]),
  ].join(', ')
