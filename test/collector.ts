import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished } from 'vitest'

interface Attribute {
  readonly key: string
  readonly value: Readonly<Record<string, unknown>>
}

export interface Span {
  readonly name: string
  /** 1 internal, 2 server, 3 client. */
  readonly kind: number
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly status?: { readonly code?: number }
  readonly attributes: Readonly<Record<string, unknown>>
}

export interface Metric {
  readonly name: string
  readonly unit: string
  readonly points: readonly (Readonly<Record<string, unknown>> & {
    readonly attributes: Readonly<Record<string, unknown>>
  })[]
}

/** Receives OTLP/HTTP as JSON, like a collector. */
export interface Collector {
  readonly url: string
  readonly spans: Span[]
  /** Latest values. */
  readonly metrics: Map<string, Metric>
  readonly resource: () => Readonly<Record<string, unknown>>
  readonly headers: () => Readonly<Record<string, string | string[] | undefined>>
  /** Everything received, as text. */
  readonly text: () => string
  /** Waits for the first export, because a stopping process waits only a second for its last export. */
  readonly received: () => Promise<void>
}

const plain = (attributes: readonly Attribute[] = []): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))

export async function startCollector(): Promise<Collector> {
  const spans: Span[] = []
  const metrics = new Map<string, Metric>()
  let resource: Record<string, unknown> = {}
  let headers: Collector['headers'] extends () => infer H ? H : never = {}
  let all = ''
  const server = createServer(async (req, res) => {
    let text = ''
    for await (const chunk of req) text += chunk
    all += text
    headers = req.headers
    // biome-ignore lint/suspicious/noExplicitAny: OTLP, of which a part is read
    const body = JSON.parse(text) as any
    for (const one of body.resourceSpans ?? []) {
      resource = plain(one.resource.attributes)
      for (const { spans: more } of one.scopeSpans)
        for (const span of more) spans.push({ ...span, attributes: plain(span.attributes) })
    }
    for (const one of body.resourceMetrics ?? []) {
      resource = plain(one.resource.attributes)
      for (const { metrics: more } of one.scopeMetrics)
        for (const { name, unit, sum, gauge, histogram } of more)
          metrics.set(name, {
            name,
            unit,
            points: (sum ?? gauge ?? histogram).dataPoints.map((point: { attributes?: Attribute[] }) => ({
              ...point,
              attributes: plain(point.attributes),
            })),
          })
    }
    res.setHeader('content-type', 'application/json')
    res.end('{}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => new Promise((resolve) => server.close(() => resolve())))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    spans,
    metrics,
    resource: () => resource,
    headers: () => headers,
    text: () => all,
    received: () => expect.poll(() => all).not.toBe(''),
  }
}
