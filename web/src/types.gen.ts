// Written by hack/consoletypes from the Go types of the endpoints. To change it, run make console-types.

export interface Amount {
  allocatable: number;
  used?: number;
}

export interface Approval {
  plan: boolean;
  id: string;
  command: string;
}

export interface AwaitedApproval {
  command: string;
  objects: number;
}

export interface Changes {
  manifests: string;
  set: string[] | null;
  delete: string[] | null;
}

export interface ClusterField {
  name: string;
  path: string;
  value: string;
  readBy: string[] | null;
}

export interface ClusterView {
  inventory: InventoryObject[] | null;
}

export const decisionlogActions = ["create", "update", "patch", "evict"] as const;
export type DecisionlogAction = (typeof decisionlogActions)[number];

export interface DecisionlogChange {
  field: string;
  from: string | null;
  to: string | null;
  policy: string;
}

export interface DecisionlogEntry {
  time: string;
  source: string;
  action: DecisionlogAction;
  object: DecisionlogObject;
  policies: DecisionlogPolicy[] | null;
  changes: DecisionlogChange[] | null;
  moreChanges?: number;
  causes?: string[];
  user?: string;
  plans?: string[];
  approvedBy?: string[];
  durationSeconds: number;
}

export interface DecisionlogObject {
  group?: string;
  version: string;
  resource: string;
  kind: string;
  namespace?: string;
  name: string;
  uid?: string;
}

export interface DecisionlogPolicy {
  name: string;
  generation: number;
}

export interface DeliveryStatus {
  systems?: string;
  placed?: number;
  delivered?: number;
  running?: number;
}

export interface Dependency {
  resource?: string;
  version?: string;
  objects?: number;
}

export interface ExplainCandidate {
  name: string;
  chosen: boolean;
  current?: boolean;
  waits?: string;
  ranks?: ExplainRank[];
  reasons?: ExplainReason[];
}

export interface ExplainCandidates {
  total: number;
  chosen: number;
  listed: ExplainCandidate[] | null;
}

export interface ExplainDecision {
  annotations?: Record<string, string>;
  labels?: Record<string, string>;
  scheduling?: Record<string, string>;
  clusters?: string[];
  errors?: string[];
  warnings?: string[];
}

export interface ExplainDemanded {
  source: string;
  value: string;
  default?: boolean;
}

export interface ExplainExplanation {
  object: ExplainObjectReference;
  exists: boolean;
  noNamespace?: boolean;
  denied?: boolean;
  policies: ExplainPolicy[] | null;
  mismatches?: ExplainMismatch[];
  keys?: ExplainKey[];
  clusters?: ExplainCandidates;
  nodes?: ExplainCandidates;
  delivery?: string;
}

export interface ExplainKey {
  field: string;
  key: string;
  requested: string | null;
  current: string | null;
  decided: string | null;
  policy?: string;
  overrides?: string[];
  kept?: string;
  waits?: string;
}

export interface ExplainMismatch {
  policy: string;
  part: string;
  reason: string;
}

export interface ExplainObjectReference {
  apiVersion: string;
  kind: string;
  namespace?: string;
  name: string;
}

export interface ExplainPolicy {
  name: string;
  generation: number;
  priority: number;
  mode: string;
  rule?: string;
  hasRules?: boolean;
  selection?: ExplainSelection;
  alsoApply?: string[];
  decided?: RuleStatus[];
  matched?: number;
  rollout?: string;
  decision?: ExplainDecision;
  error?: string;
  follows?: string;
  stays?: string[];
  moves?: string[];
  reads?: ExplainRead[];
  ambiguousClusters?: string[];
}

export interface ExplainPreference {
  subject: string;
  value?: string;
  score: number;
  weight: number;
}

export interface ExplainRank {
  policy: string;
  rule: string;
  rank: number;
  of: number;
  score: number;
  level: number;
  preferences?: ExplainPreference[];
}

export interface ExplainRead {
  resource: string;
  objects: number;
  revision?: string;
}

export interface ExplainReason {
  policy: string;
  message?: string;
  rule?: string;
  line?: number;
  field?: string;
  expression?: string;
  unmet?: string;
  outranked?: boolean;
  values?: ExplainValue[];
  demanded?: ExplainDemanded;
  because?: ExplainReason[];
}

export interface ExplainSelection {
  limit?: number;
  minGain: number;
  spread?: boolean;
}

export interface ExplainValue {
  reference: string;
  value: unknown;
}

export interface FailedMove {
  object?: string;
  reason?: string;
  message?: string;
}

export const fleetChanges = ["Arriving", "Leaving"] as const;
export type FleetChange = (typeof fleetChanges)[number];

export interface FleetChoice {
  policy: string;
  rule?: string;
}

export interface FleetExplained {
  kind: string;
  resource: string;
  namespace?: string;
  name: string;
  state: FleetState;
  reason?: string;
  policies: string[] | null;
  clusters: string[] | null;
  decided: string[] | null;
  follows?: string;
  node?: string;
  replicas?: number;
  division?: Record<string, number>;
  places: FleetReasons[] | null;
}

export interface FleetMember {
  kind: string;
  resource: string;
  namespace?: string;
  name: string;
  state: FleetState;
  reason?: string;
  policies: string[] | null;
  clusters: string[] | null;
  decided: string[] | null;
  follows?: string;
  node?: string;
  replicas?: number;
  division?: Record<string, number>;
  here?: number;
  change?: FleetChange;
}

export interface FleetReasons {
  cluster: string;
  replicas?: number;
  change?: FleetChange;
  by?: FleetChoice[];
  ranks?: ExplainRank[];
  against?: ExplainReason[];
}

export const fleetStates = ["Violating", "Moving", "Waiting", "Running"] as const;
export type FleetState = (typeof fleetStates)[number];

export interface FleetView {
  source: string;
  readAt: string;
  live: boolean;
  objects: number;
  states: Partial<Record<FleetState, number>> | null;
  places: Place[] | null;
  notes: string[] | null;
}

export interface Flow {
  from: string;
  to: string;
  pending: boolean;
  planned?: boolean;
  objects: number;
}

export interface HistoryView {
  log: boolean;
  total: number;
  decisions: DecisionlogEntry[] | null;
  events: PolicyEvent[] | null;
  notes: string[] | null;
}

export interface InventoryObject {
  resource: string;
  namespace?: string;
  name: string;
  labels: Record<string, string> | null;
  readBy: Record<string, string[] | null> | null;
  fields: ClusterField[] | null;
  annotations: ClusterField[] | null;
  unschedulable?: boolean;
}

export interface LabeledView {
  clusters: string[] | null;
}

export interface ManifestView {
  manifest: string;
  from?: number;
  to?: number;
}

export interface Mistake {
  line: number;
  column: number;
  object?: string;
  error: boolean;
  message: string;
}

export interface MoveFailures {
  objects?: number;
  pause?: string;
  pausedNamespaces?: string[];
  sample?: FailedMove[];
}

export interface MovingObject {
  object?: string;
  since?: string;
  deadline?: string;
}

export interface NamespaceObjects {
  namespace?: string;
  objects?: number;
}

export interface NamespaceUse {
  namespace: string;
  used: Record<string, string> | null;
}

export interface ObjectsView {
  total: number;
  objects: FleetMember[] | null;
}

export interface PausedChange {
  change?: string;
  before?: number;
  namespaces?: string[];
}

export interface Place {
  name: string;
  region?: string;
  zones?: string[];
  ready?: boolean;
  sites?: number;
  allocatable?: Record<string, string>;
  used?: Record<string, string>;
  objects: number;
  states: Partial<Record<FleetState, number>> | null;
  arriving: number;
  leaving: number;
  replicas: number;
  policies: string[] | null;
  cpu?: Amount;
  memory?: Amount;
}

export interface PlacementPolicyStatus {
  conditions?: V1Condition[];
  observedGeneration?: number;
  generationInForce?: number;
  moduleDigest?: string;
  matched?: number;
  violations?: number;
  wouldDeny?: number;
  wouldMove?: number;
  undecided?: number;
  conflicted?: number;
  rules?: RuleStatus[];
  remediated?: number;
  waiting?: WaitingObjects[];
  waitsFor?: string;
  moving?: MovingObject[];
  plan?: RemediationPlan;
  usedApproval?: string;
  violationSample?: Violation[];
  findings?: string[];
  paused?: PausedChange;
  failures?: MoveFailures;
  rollout?: RolloutStatus;
  delivery?: DeliveryStatus;
  dependencies?: Dependency[];
}

export interface PlanApproval {
  user?: string;
  time?: string;
}

export interface PlanView {
  policy: string;
  digest?: string;
  moves: WhatifMove[] | null;
  waits?: string;
  causes?: string[];
  denied: number;
  undecided: number;
  leftAlone: number;
  errors?: string[];
  total: number;
  flows: Flow[] | null;
  status: RemediationPlan | null;
  waiting: WaitingObjects[] | null;
  approvals: Approval[] | null;
  command: string;
}

export interface PoliciesView {
  policies: PolicyView[] | null;
  notes: string[] | null;
}

export interface PolicyEvent {
  time: string;
  policy: string;
  kind: string;
  text: string;
  details: string[] | null;
}

export interface PolicyView {
  name: string;
  generation: number;
  mode: string;
  priority: number;
  remediation: string;
  rules: string[] | null;
  remote?: string;
  stages: string[] | null;
  states: Partial<Record<FleetState, number>> | null;
  errors: string[] | null;
  status: PlacementPolicyStatus;
  approvals: Approval[] | null;
}

export interface Question {
  manifests: string;
  set: string[] | null;
  delete: string[] | null;
  transition?: WhatifTransition;
  offset?: number;
  limit?: number;
}

export interface QuotaAmount {
  resource: string;
  hard: string;
  used: string;
  reserved: string;
  usedShare: number;
  reservedShare: number;
}

export interface QuotaView {
  kind: string;
  namespace?: string;
  name: string;
  mode: string;
  scopes: string[] | null;
  ready?: string;
  amounts: QuotaAmount[] | null;
  selectedNamespaces?: number;
  namespaces: NamespaceUse[] | null;
}

export interface QuotasView {
  quotas: QuotaView[] | null;
  notes: string[] | null;
}

export interface Refreshed {
  readAt: string;
}

export interface RemediationPlan {
  digest?: string;
  state?: string;
  message?: string;
  causes?: string[];
  startTime?: string;
  moves?: number;
  done?: number;
  rollouts?: number;
  approval?: PlanApproval;
  transitions?: string[];
}

export interface RolloutStageStatus {
  name?: string;
  startTime?: string;
  movedTime?: string;
  matched?: number;
  moved?: number;
  failed?: number;
  denied?: number;
  deniedBefore?: NamespaceObjects[];
}

export interface RolloutStatus {
  state?: string;
  stage?: string;
  message?: string;
  revision?: number;
  digest?: string;
  previousRevision?: number;
  reached?: number;
  stages?: RolloutStageStatus[];
  approvalID?: string;
  revisions?: number[];
}

export interface RuleStatus {
  name?: string;
  objects?: number;
}

export interface TestCaseView {
  name: string;
  file: string;
  needsManifest: boolean;
  cases: number;
  total: number;
}

export interface UnaffectedView {
  reasons: string[] | null;
}

export interface V1Condition {
  type: string;
  status: string;
  observedGeneration?: number;
  lastTransitionTime: string;
  reason: string;
  message: string;
}

export interface ValuesView {
  fields: Record<string, string[] | null> | null;
  labels: Record<string, string[] | null> | null;
  annotations: Record<string, string[] | null> | null;
  properties: Record<string, string[] | null> | null;
  resources: string[] | null;
  nodeLabels: Record<string, string[] | null> | null;
  nodes: string[] | null;
  objectLabels: Record<string, string[] | null> | null;
  objectAnnotations: Record<string, string[] | null> | null;
  namespaceLabels: Record<string, string[] | null> | null;
}

export interface Violation {
  object?: string;
  message?: string;
}

export interface WaitingObjects {
  reason?: string;
  objects?: number;
  until?: string;
  message?: string;
}

export interface WhatifFinding {
  object: string;
  error: boolean;
  message: string;
}

export interface WhatifMove {
  resource: string;
  namespace?: string;
  name: string;
  uid: string;
  evict?: boolean;
  changes: WhatifValue[] | null;
}

export interface WhatifObject {
  kind: string;
  resource: string;
  namespace?: string;
  name: string;
  transition: WhatifTransition;
  values?: WhatifValue[];
  reasons?: string[];
  dropped?: WhatifValue[];
}

export interface WhatifPlanned {
  to: string | null;
  pending?: boolean;
  waits?: string;
}

export interface WhatifReport {
  objects: WhatifObject[] | null;
  totals: Partial<Record<WhatifTransition, number>> | null;
  namespaces: Record<string, Partial<Record<WhatifTransition, number>> | null> | null;
  waiting?: number;
  unchanged: number;
  rules?: WhatifRuleCount[];
  findings?: WhatifFinding[];
  missing?: string[];
}

export interface WhatifRuleCount {
  policy: string;
  rule: string;
  before: number;
  after: number;
}

export const whatifTransitions = ["Denied", "Undecidable", "Allowed", "Moved", "Changed", "Pending", "Replanned", "Kept", "Matched", "Unmatched", "Unenforced", "Waiting"] as const;
export type WhatifTransition = (typeof whatifTransitions)[number];

export interface WhatifValue {
  field: string;
  key: string;
  from: string | null;
  to: string | null;
  policy: string;
  pending?: boolean;
  waits?: string;
  planned?: WhatifPlanned;
}

export interface WhatifView {
  mistakes: Mistake[] | null;
  report: WhatifReport | null;
  total: number;
  moves: number;
  flows: Flow[] | null;
  notes: string[] | null;
  commands: string[] | null;
  before: (string | null)[] | null;
  approvals: AwaitedApproval[] | null;
  milliseconds: number;
}

export interface WorkloadView {
  places: FleetExplained | null;
  explanation: ExplainExplanation | null;
  command: string;
}

// Endpoints are the requests and responses by method and path below api/.
export interface Endpoints {
  "GET fleet": { request: undefined; response: FleetView };
  "GET objects": { request: undefined; response: ObjectsView };
  "GET cluster": { request: undefined; response: ClusterView };
  "GET labeled": { request: undefined; response: LabeledView };
  "GET workload": { request: undefined; response: WorkloadView };
  "GET policies": { request: undefined; response: PoliciesView };
  "GET policy": { request: undefined; response: ManifestView };
  "GET manifest": { request: undefined; response: ManifestView };
  "GET plan": { request: undefined; response: PlanView };
  "GET quotas": { request: undefined; response: QuotasView };
  "GET history": { request: undefined; response: HistoryView };
  "GET values": { request: undefined; response: ValuesView };
  "GET schema": { request: undefined; response: unknown };
  "POST whatif": { request: Question; response: WhatifView };
  "POST unaffected": { request: Changes; response: UnaffectedView };
  "POST testcase": { request: Changes; response: TestCaseView };
  "POST refresh": { request: Record<string, never>; response: Refreshed };
}
