// Made-up tools that read like real ones, and questions whose answer is known. The same numbers give the same tools.

/** What a server is about, and what it deals with. One area a server. */
const AREAS = [
  [
    'billing',
    'the billing system',
    'invoice credit_note payment refund tax_code price_plan coupon dunning_letter ledger_entry payout',
  ],
  [
    'parcels',
    'the parcel carrier',
    'shipment parcel pickup customs_form route depot return_label delivery_slot tracking_event pallet',
  ],
  [
    'clinic',
    'the clinic',
    'patient appointment prescription lab_result referral ward vaccination care_plan consent diagnosis',
  ],
  ['library', 'the library', 'book loan reader hold shelf catalogue_card fine branch reading_list periodical'],
  [
    'fleet',
    'the vehicle fleet',
    'vehicle driver trip fuel_card inspection tyre_set toll_receipt garage_visit accident_report rental',
  ],
  ['school', 'the school', 'pupil lesson grade timetable exam classroom homework excursion report_card absence'],
  ['farm', 'the farm', 'field crop harvest tractor animal barn irrigation_plan soil_sample feed_order milking'],
  ['theatre', 'the theatre', 'play rehearsal ticket seat costume stage_light season actor prop review'],
  ['harbour', 'the harbour', 'vessel berth crane cargo_list tide_table pilot container quay_fee anchor_spot tug'],
  ['kitchen', 'the restaurant', 'recipe menu table_booking supplier ingredient order shift allergen_note bill tip'],
  [
    'code',
    'the code host',
    'repository branch merge_request build issue release commit_status wiki_page deploy_key pipeline',
  ],
  ['chat', 'the team chat', 'message channel reaction reminder poll mention call bookmark emoji user_group'],
  [
    'storage',
    'the object store',
    'bucket object upload access_rule version share_link quota snapshot lifecycle_rule replica',
  ],
  [
    'weather',
    'the weather service',
    'forecast station storm_warning rain_map pollen_count snow_depth wind_reading uv_index climate_record radar_image',
  ],
  [
    'museum',
    'the museum',
    'exhibit artist loan_contract gallery guided_tour donation restoration audio_guide visitor archive_box',
  ],
  [
    'power',
    'the power grid',
    'meter outage substation tariff solar_panel battery load_curve transformer work_permit reading',
  ],
  [
    'travel',
    'the travel agency',
    'flight hotel_room passenger itinerary visa luggage_item transfer loyalty_card insurance seat_map',
  ],
  [
    'legal',
    'the law office',
    'contract clause case_file hearing witness deadline client_matter signature evidence_item fee_note',
  ],
  ['news', 'the news desk', 'article headline editor photo correction byline embargo newsletter source_note column'],
  ['sports', 'the sports club', 'member training match court trophy league_table coach membership_fee injury jersey'],
].map(([id, place, things]) => ({ id, place, things: things.split(' ') }))

const text = (description) => ({ type: 'string', description })
const ID = text('Identifier, as the listing gives it, such as "a41-7c".')
const PAGE = {
  page_size: { type: 'integer', minimum: 1, maximum: 100, default: 25, description: 'How many to return at once.' },
  after: text('Where the page before ended.'),
}

/** Name, sentence, other words for it, parameters, which of them are needed. */
const ACTIONS = [
  [
    'list',
    'Lists every {thing} known to {place}, latest first.',
    'show me all',
    { ...PAGE, status: { enum: ['active', 'closed', 'any'] } },
    [],
  ],
  [
    'read',
    'Returns one {thing} of {place} with all its fields.',
    'display the details of',
    { id: ID, fields: { type: 'array', items: { type: 'string' } } },
    ['id'],
  ],
  [
    'add',
    'Adds a {thing} to {place} and answers with its identifier.',
    'make a new',
    {
      title: text('What people will see.'),
      notes: text('Anything else worth keeping.'),
      owner: text('Who is responsible.'),
    },
    ['title'],
  ],
  [
    'change',
    'Changes what is given of a {thing} in {place} and keeps the rest.',
    'edit',
    {
      id: ID,
      title: text('New title.'),
      notes: text('New notes.'),
      only_if_unchanged_since: { type: 'string', format: 'date-time' },
    },
    ['id'],
  ],
  [
    'remove',
    'Removes a {thing} from {place} for good.',
    'delete',
    { id: ID, really: { type: 'boolean', description: 'Has to be true.' } },
    ['id', 'really'],
  ],
  [
    'find',
    'Finds a {thing} in {place} by words in its title or notes.',
    'look for',
    { words: text('What to look for.'), ...PAGE },
    ['words'],
  ],
  [
    'export',
    'Writes each {thing} of {place} to a file and returns where it lies.',
    'download',
    { format: { enum: ['csv', 'json', 'pdf'] }, since: { type: 'string', format: 'date' } },
    ['format'],
  ],
  [
    'assign',
    'Gives a {thing} in {place} to a person or a group.',
    'hand over',
    { id: ID, to: text('Person or group.'), tell_them: { type: 'boolean', default: true } },
    ['id', 'to'],
  ],
  [
    'count',
    'Counts each {thing} in {place}, by month when asked.',
    'how many of',
    { by_month: { type: 'boolean' }, status: { enum: ['active', 'closed', 'any'] } },
    [],
  ],
  [
    'copy',
    'Copies a {thing} in {place} under another title.',
    'duplicate',
    { id: ID, new_title: text('Title of the copy.') },
    ['id', 'new_title'],
  ],
].map(([verb, sentence, otherwise, properties, required]) => ({ verb, sentence, otherwise, properties, required }))

/** Kinds of the same tool, so that five hundred of one server differ. */
const KINDS = [
  ['', ''],
  ['for_branch', 'Looks at one branch only.'],
  ['as_draft', 'Nothing is final until it is confirmed.'],
  ['by_day', 'Works on the days given.'],
  ['with_history', 'Says what happened to it before.'],
]

/** Of one server. */
export const MOST_TOOLS = ACTIONS.length * 10 * KINDS.length
const words = (name) => name.replaceAll('_', ' ')

/** Where the servers after the first of each area are. */
const SITES = 'Lisbon Oslo Quebec Nairobi Hanoi Tbilisi Bogota Perth Kyoto'.split(' ')

function areaOf(server) {
  const area = AREAS[server % AREAS.length]
  if (server < AREAS.length) return area
  const site = SITES[(Math.floor(server / AREAS.length) - 1) % SITES.length]
  return { ...area, id: `${area.id}_${site.toLowerCase()}`, place: `${area.place} in ${site}` }
}

function madeTool(area, index) {
  const action = ACTIONS[index % 10]
  const thing = area.things[(index + Math.floor(index / 10)) % 10]
  const [kind, remark] = KINDS[Math.floor(index / 100)]
  const sentence = action.sentence.replace('{thing}', words(thing)).replace('{place}', area.place)
  return {
    parts: { area, action, thing, kind },
    tool: {
      name: [action.verb, thing, kind].filter(Boolean).join('_'),
      description: remark ? `${sentence} ${remark}` : sentence,
      inputSchema: { type: 'object', properties: action.properties, required: action.required },
    },
  }
}

/** The tools of server number `server`: at most MOST_TOOLS. */
export const makeTools = (server, count) =>
  Array.from({ length: count }, (_, index) => madeTool(areaOf(server), index).tool)

/** The same as a drop-in module. */
export const makeModule = (server, count) => ({
  name: areaOf(server).id,
  description: `Everything about ${areaOf(server).place}.`,
  tools: Object.fromEntries(
    makeTools(server, count).map(({ name, description, inputSchema }) => [
      name,
      { description, input: inputSchema, effect: 'read', run: () => `${name} was called.` },
    ]),
  ),
})

/** `{id, tools}` of `servers` servers with `total` tools between them. */
export const makeFleet = (servers, total) =>
  Array.from({ length: servers }, (_, server) => ({
    id: areaOf(server).id,
    server,
    tools: Math.floor(total / servers) + (server < total % servers ? 1 : 0),
  }))

/** Questions with one right answer: in the tool's own words, in other words, with two letters swapped. */
export function makeQuestions(fleet, count) {
  return Array.from({ length: count }, (_, n) => {
    const { id, server, tools } = fleet[(n * 7) % fleet.length]
    const { tool, parts } = madeTool(areaOf(server), (n * 37) % tools)
    const thing = words(parts.thing)
    const rest = `${parts.kind ? ` ${words(parts.kind)}` : ''} ${parts.area.place.replace('the ', '')}`
    const swapped = thing[0] + thing[2] + thing[1] + thing.slice(3)
    const query = [
      `${parts.action.verb} ${thing}${rest}`,
      `${parts.action.otherwise} ${thing}${rest}`,
      `${parts.action.verb} ${swapped}${rest}`,
    ][n % 3]
    return { query, server: id, tool: tool.name }
  })
}
