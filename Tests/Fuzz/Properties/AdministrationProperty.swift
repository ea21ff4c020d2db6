// Every request to the administration interface is parsed or refused. No spelling gets in without the token.

import HTTPCore

@testable import Administration
@testable import CacheStore
@testable import ReverseProxy

enum AdministrationProperty {
    private static let token = Array("correct-token".utf8)

    /// The input is the head of a request.
    static func check(_ bytes: [UInt8]) throws(Violation) {
        var parser = RequestParser()
        guard case .head(let head, _, _) = parser.parse(bytes.span, limits: RequestLimits()) else { return }
        _ = OwnPage(head)
        if AdminAccess(head, through: .loopback, token: token) == .allowed {
            let presented = head.fields.all(.authorization).map { Array($0) }
            try expect(presented.count == 1 && presented[0].suffix(token.count).elementsEqual(token), "the token was not presented")
        }
        if AdminAccess(head, through: .loopback, token: nil) == .allowed {
            try expect(!head.fields.contains(.origin), "a cross-origin request is allowed")
        }
        guard let request = AdminRequest(head) else { return }
        for argument in request.arguments {
            _ = try? request.flag(argument.name)
            if let count = try? request.count(argument.name, default: 1, in: 1...100) {
                try expect((1...100).contains(count), "\(count) is out of bounds")
            }
        }
        for route in AdminInterface.routes { _ = route.item(in: request.segments) }
        for segment in request.segments {
            guard let id = StoredItemID(segment) else { continue }
            try expect(id.description == segment, "an item ID is parsed differently after formatting")
        }
        let problem = AdminResponse(AdminProblem.badRequest(request.segments.joined()))
        try expect(!problem.head(date: []).isEmpty, "a problem has no head")
    }
}
