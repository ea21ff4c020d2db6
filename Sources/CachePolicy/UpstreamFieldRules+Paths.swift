// Rules for the fields of upstream requests, by path.

import Forwarding

extension UpstreamFieldRules: PathRules {}
